package io.penstock.sources;

import io.penstock.spark42.DirectCall;
import java.io.Serializable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.types.DataTypes;

/**
 * Finds numbers of thirteen digits and more where a value may begin: behind a colon, a comma or a bracket.
 *
 * <p>It finds what the regular expression {@code [:,\[]\s*-?[0-9]{13}} finds, without making a text of the record and
 * a match of each colon. Thirteen digits in a row have one at every thirteenth place, so it looks at no other bytes.
 */
public final class LongNumbers implements Serializable {
  private static final int DIGITS = 13;

  /** Whether the bytes of a record have such a number; null where there are no bytes. */
  public static Column areIn(Column value) {
    return DirectCall.of(new LongNumbers(), "isIn", DataTypes.BooleanType, value);
  }

  /** Whether a text in UTF-8 has such a number. */
  public boolean isIn(byte[] text) {
    int place = DIGITS - 1;
    while (place < text.length) {
      int end = endOfDigits(text, place);
      if (end > place) {
        int begin = beginOfDigits(text, place);
        if (end - begin >= DIGITS && isValue(text, begin)) {
          return true;
        }
      }
      place = end + DIGITS;
    }
    return false;
  }

  private static int endOfDigits(byte[] text, int from) {
    int end = from;
    while (end < text.length && isDigit(text[end])) {
      end++;
    }
    return end;
  }

  private static int beginOfDigits(byte[] text, int from) {
    int begin = from;
    while (begin > 0 && isDigit(text[begin - 1])) {
      begin--;
    }
    return begin;
  }

  /** Whether a value may begin with the digits from {@code begin}: a sign and white space may come before. */
  private static boolean isValue(byte[] text, int begin) {
    int before = begin - 1;
    if (before >= 0 && text[before] == '-') {
      before--;
    }
    while (before >= 0 && (text[before] == ' ' || text[before] >= '\t' && text[before] <= '\r')) {
      before--;
    }
    return before >= 0 && (text[before] == ':' || text[before] == ',' || text[before] == '[');
  }

  private static boolean isDigit(byte each) {
    return each >= '0' && each <= '9';
  }

  @Override
  public String toString() {
    return "LongNumbers";
  }
}
