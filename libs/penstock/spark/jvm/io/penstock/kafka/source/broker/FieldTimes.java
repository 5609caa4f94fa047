package io.penstock.kafka.source.broker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.LongNode;
import java.text.ParseException;
import java.time.DateTimeException;
import java.time.ZoneId;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.catalyst.util.LegacyDateFormats$;
import org.apache.spark.sql.catalyst.util.TimestampFormatter;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** How a field of a JSON value tells a time, in milliseconds since 1970. Empty where it tells none. */
@FunctionalInterface
public interface FieldTimes {
  long MICROS_PER_MILLI = 1000;

  OptionalLong millisOf(JsonNode node);

  /**
   * By a format of {@code penstock.spark.inputs.event_time}, where other values are malformed.
   *
   * @param format {@code epoch_seconds}, {@code epoch_millis} or a datetime pattern of Spark
   * @throws IllegalArgumentException if it is none of them
   */
  static FieldTimes of(String format, ZoneId zone) {
    return switch (format) {
      case "epoch_seconds" -> new Epoch(1000);
      case "epoch_millis" -> new Epoch(1);
      default -> Pattern.of(format, zone);
    };
  }

  /**
   * A text that {@code from_json} reads as TIMESTAMP, or a number.
   *
   * @param zone applies to texts without a time zone. Pass the session's, which {@code from_json} uses too
   */
  record AsTimestamp(long millisPerUnit, ZoneId zone) implements FieldTimes {
    @Override
    public OptionalLong millisOf(JsonNode node) {
      if (node.isIntegralNumber() && node.canConvertToLong()) {
        return OptionalLong.of(node.asLong() * millisPerUnit);
      }
      if (node.isNumber()) {
        return OptionalLong.of((long) (node.asDouble() * millisPerUnit));
      }
      if (!node.isTextual()) {
        return OptionalLong.empty();
      }
      Option<Object> micros = DateTimeUtils.stringToTimestamp(UTF8String.fromString(node.asText()), zone);
      return micros.isEmpty()
          ? OptionalLong.empty()
          : OptionalLong.of(Math.floorDiv((Long) micros.get(), MICROS_PER_MILLI));
    }
  }

  /** A whole number of the years 1 to 9999. */
  record Epoch(long millisPerUnit) implements FieldTimes {
    // As in penstock.spark.inputs.misread, with a day on each side for time zones.
    private static final long FIRST_SECOND = -62_135_596_800L - 86_400;
    private static final long END_SECOND = 253_402_300_800L + 86_400;

    @Override
    public OptionalLong millisOf(JsonNode node) {
      if (!node.isIntegralNumber() || !node.canConvertToLong()) {
        return OptionalLong.empty();
      }
      long number = node.asLong();
      long unitsPerSecond = 1000 / millisPerUnit;
      boolean isInside = number >= FIRST_SECOND * unitsPerSecond && number < END_SECOND * unitsPerSecond;
      return isInside ? OptionalLong.of(number * millisPerUnit) : OptionalLong.empty();
    }
  }

  /** A text, or the digits of a number, by a datetime pattern of Spark. */
  record Pattern(TimestampFormatter formatter) implements FieldTimes {
    static Pattern of(String pattern, ZoneId zone) {
      try {
        return new Pattern(
            TimestampFormatter.apply(pattern, zone, LegacyDateFormats$.MODULE$.SIMPLE_DATE_FORMAT(), true));
      } catch (RuntimeException error) {
        throw new IllegalArgumentException(
            "'" + pattern + "' is no datetime pattern of Spark: " + error.getMessage(),
            error);
      }
    }

    @Override
    public OptionalLong millisOf(JsonNode node) {
      if (!node.isTextual() && !node.isIntegralNumber()) {
        return OptionalLong.empty();
      }
      try {
        return new Epoch(1).millisOf(LongNode.valueOf(Math.floorDiv(formatter.parse(node.asText()), MICROS_PER_MILLI)));
      } catch (DateTimeException | ParseException | ArithmeticException notOfThePattern) {
        return OptionalLong.empty();
      }
    }
  }
}
