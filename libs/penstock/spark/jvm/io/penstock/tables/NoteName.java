package io.penstock.tables;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The name of a note: {@code <batch>-<token>}, the batch from which it counts and the owner of the checkpoint who wrote
 * it. So two owners never write one file. Earlier releases wrote {@code <batch>}: such a note is older than all others.
 *
 * @param epoch of the token; 0 without one
 * @param attempt of the token; 0 without one
 */
record NoteName(long batch, long epoch, long attempt) {
  private static final Pattern TEXT = Pattern.compile("(\\d+)(?:-(\\d+)\\.(\\d+))?");

  /** {@code token}: that of the owner; empty where there is no fence. */
  static NoteName of(long batch, String token) {
    return parse(token.isEmpty() ? Long.toString(batch) : batch + "-" + token)
        .orElseThrow(() -> new IllegalArgumentException("not a token: " + token));
  }

  /** Empty for another file. */
  static Optional<NoteName> parse(String name) {
    Matcher found = TEXT.matcher(name);
    if (!found.matches()) {
      return Optional.empty();
    }
    boolean hasOwner = found.group(2) != null;
    return Optional.of(new NoteName(Long.parseLong(found.group(1)), hasOwner ? Long.parseLong(found.group(2)) : 0,
        hasOwner ? Long.parseLong(found.group(3)) : 0));
  }

  /** Whether this note is of no use once {@code other} is there: it is of an earlier owner, or of an earlier batch. */
  boolean isReplacedBy(NoteName other) {
    int owner = epoch == other.epoch ? Long.compare(attempt, other.attempt) : Long.compare(epoch, other.epoch);
    return owner < 0 || owner == 0 && batch < other.batch;
  }

  String text() {
    return epoch == 0 && attempt == 0 ? Long.toString(batch) : batch + "-" + epoch + "." + attempt;
  }
}
