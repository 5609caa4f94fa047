package io.penstock.sources.plain;

import java.io.Serializable;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.ZoneId;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.LegacyBehaviorPolicy$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * Values of texts and numbers, by Spark's own functions, within bounds. What is beyond them may be right or not: Spark
 * and the search for misread values decide (penstock.spark.inputs.misread).
 *
 * @param zone of times without one; null where Spark reads times as releases before 3.0 did
 */
record PlainTexts(ZoneId zone) implements Serializable {
  private static final long MICROS = 1_000_000;
  private static final long FIRST_DAY = LocalDate.of(1, 1, 1).toEpochDay();
  private static final long LAST_DAY = LocalDate.of(9999, 12, 31).toEpochDay();
  private static final long FIRST_SECOND = FIRST_DAY * 86_400;
  private static final long END_SECOND = (LAST_DAY + 1) * 86_400;

  /** A value of a text. */
  interface Reader extends Serializable {
    Object of(UTF8String text);
  }

  static PlainTexts of(SparkSession session) {
    SQLConf settings = session.sessionState().conf();
    boolean isLegacy = settings.legacyTimeParserPolicy() == LegacyBehaviorPolicy$.MODULE$.LEGACY();
    return new PlainTexts(isLegacy ? null : DateTimeUtils.getZoneId(settings.sessionLocalTimeZone()));
  }

  /** Whether bytes are text of Spark. */
  static boolean isUtf8(byte[] bytes) {
    for (byte each : bytes) {
      if (each < 0) {
        return UTF8String.fromBytes(bytes).isValid();
      }
    }
    return true;
  }

  /** What reads dates and times; throws NotPlainException for other types. */
  Reader timesOf(DataType type) {
    NotPlainException.require(zone != null);
    if (type.equals(DataTypes.TimestampType)) {
      return this::timestamp;
    }
    if (type.equals(DataTypes.TimestampNTZType)) {
      return text -> micros(DateTimeUtils.stringToTimestampWithoutTimeZone(text, false));
    }
    NotPlainException.require(type.equals(DataTypes.DateType));
    return PlainTexts::date;
  }

  /** The TIMESTAMP of whole seconds. */
  static Object ofSeconds(long seconds) {
    NotPlainException.require(seconds >= FIRST_SECOND && seconds < END_SECOND);
    return seconds * MICROS;
  }

  static Object decimal(BigDecimal number, DecimalType type) {
    long wholeDigits = (long) number.precision() - number.scale();
    NotPlainException.require(number.scale() <= type.scale() && wholeDigits <= type.precision() - type.scale());
    return Decimal.apply(number, type.precision(), type.scale());
  }

  static Object finite(double number) {
    NotPlainException.require(Double.isFinite(number));
    return number;
  }

  static Object finite(float number) {
    NotPlainException.require(Float.isFinite(number));
    return number;
  }

  private Object timestamp(UTF8String text) {
    return micros(DateTimeUtils.stringToTimestamp(text, zone));
  }

  private static Object micros(Option<Object> found) {
    NotPlainException.require(found.isDefined());
    ofSeconds(Math.floorDiv((Long) found.get(), MICROS));
    return found.get();
  }

  private static Object date(UTF8String text) {
    Option<Object> days = DateTimeUtils.stringToDate(text);
    NotPlainException.require(days.isDefined() && (Integer) days.get() >= FIRST_DAY && (Integer) days.get() <= LAST_DAY);
    return days.get();
  }
}
