package io.penstock.host;

import java.util.stream.Collectors;

/**
 * The text of an exception without its stacks. The message of an exception that passed through Python contains printed
 * Java stacks, of thousands of characters each, and its cause is named below the first of them.
 */
final class StackText {
  private static final int LONGEST = 8_000;

  private StackText() {}

  /** {@code message} with the first frame of each stack, at most {@code LONGEST} characters. */
  static String shortened(String message) {
    String[] above = {""};
    String text = message.lines()
        .filter(line -> {
          boolean isRepeated = isFrame(line) && isFrame(above[0]);
          above[0] = line;
          return !isRepeated;
        })
        .collect(Collectors.joining("\n"));
    return text.substring(0, Math.min(text.length(), LONGEST));
  }

  private static boolean isFrame(String line) {
    return line.startsWith("\t") && (line.strip().startsWith("at ") || line.strip().startsWith("... "));
  }
}
