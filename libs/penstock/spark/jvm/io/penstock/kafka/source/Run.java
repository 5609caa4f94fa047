package io.penstock.kafka.source;

import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * A few records in a row, with the time that each place of the log has: the median of a record's and its neighbours'
 * times, so that a single record with a bogus time does not count.
 *
 * @param places in order of offset; none when no record has an event time
 * @param meanBytes the mean size of key and value
 */
record Run(List<Place> places, double meanBytes) {
  /** How many records a run has from its offset on, unless the log ends before. */
  static final int RECORDS = 18;

  /** How many offsets before the one asked for are read too, for the sake of neighbours. */
  static final int LEAD = 4;

  private static final int NEIGHBOURS = 2;

  /** An offset and the time there. */
  record Place(long offset, long millis) {}

  /**
   * Of records in order of offset.
   *
   * @param asked the offset from which on places are told; records before it are only neighbours
   * @param times event times of the records, of which some may be missing
   * @param followed whether more records follow that are not here
   */
  static Run of(long asked, List<Long> offsets, List<OptionalLong> times, boolean followed, double meanBytes) {
    List<Long> dated = new ArrayList<>();
    List<Long> millis = new ArrayList<>();
    for (int at = 0; at < offsets.size(); at++) {
      if (times.get(at).isPresent()) {
        dated.add(offsets.get(at));
        millis.add(times.get(at).getAsLong());
      }
    }
    // Of a record that others follow, which are not known, nobody can tell a bogus time from a pause before it.
    int told = followed ? dated.size() - NEIGHBOURS : dated.size();
    List<Place> places = new ArrayList<>();
    for (int at = 0; at < told; at++) {
      if (dated.get(at) >= asked) {
        places.add(new Place(dated.get(at), timeAt(millis, at)));
      }
    }
    return new Run(places, meanBytes);
  }

  OptionalLong firstMillis() {
    return places.isEmpty() ? OptionalLong.empty() : OptionalLong.of(places.get(0).millis());
  }

  OptionalLong lastMillis() {
    return places.isEmpty() ? OptionalLong.empty() : OptionalLong.of(places.get(places.size() - 1).millis());
  }

  /** The first record of a log has no neighbours on one side: it is not later than the ones that follow. */
  private static long timeAt(List<Long> millis, int at) {
    long median = medianAround(millis, at);
    return at == 0 && millis.size() > 2 ? Math.min(median, medianAround(millis, 1)) : median;
  }

  /** As many neighbours on either side: in a log without disorder the median is the record's own time. */
  private static long medianAround(List<Long> millis, int at) {
    int radius = Math.min(NEIGHBOURS, Math.min(at, millis.size() - 1 - at));
    List<Long> window = millis.subList(at - radius, at + radius + 1);
    return window.stream().sorted().toList().get(radius);
  }
}
