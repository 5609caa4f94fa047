package io.penstock.kafka.source;

/**
 * Finds the latest event time up to which everything fits into a batch. Guesses by what is known, looks there, and
 * narrows the times in between; every third look halves them, and in the end every one, so that it comes to an end
 * whatever the curves are.
 */
final class HorizonSearch {
  private static final int PATIENT_LOOKS = 3;
  private static final int MOST_LOOKS = 12;
  private static final long FIRST_STRIDE_MILLIS = 1000;

  private final Cuts cuts;
  private final double slack;
  private int looks;

  /** A batch may stay below its budget by the share {@code slack}, in return for fewer looks. */
  HorizonSearch(Cuts cuts, double slack) {
    this.cuts = cuts;
    this.slack = slack;
  }

  int looks() {
    return looks;
  }

  /** A cut that reads something and fits, where the backlog as a whole does not fit. */
  Cut find() {
    Cut low = cuts.nothing();
    Cut high = cuts.everything();
    for (looks = 0; isOpen(low, high) && !isEnough(low); looks++) {
      Cut cut = cuts.measure(nextTime(low, high));
      if (cut.load() > 1) {
        high = cut;
      } else {
        low = cut;
      }
    }
    return reads(low) ? low : Shares.between(low, high);
  }

  /** The longer the search, the smaller a batch will do. */
  private boolean isEnough(Cut cut) {
    double least = (1 - slack) * Math.max(0, MOST_LOOKS - looks) / Math.max(1, MOST_LOOKS - PATIENT_LOOKS);
    return reads(cut) && cut.load() >= Math.min(1 - slack, least);
  }

  private boolean isOpen(Cut low, Cut high) {
    return low.load() < 1 && high.millis() - 1 > cuts.reachOf(low);
  }

  private boolean reads(Cut cut) {
    return !cut.ends().equals(cuts.nothing().ends());
  }

  private long nextTime(Cut low, Cut high) {
    long from = Math.max(low.millis(), cuts.reachOf(low)) + 1;
    long until = high.millis() - 1;
    if (high.millis() < Cuts.NEVER && (looks % 3 == 2 || looks > MOST_LOOKS)) {
      return from + (until - from) / 2;
    }
    return Math.min(until, estimatedTime(from, until));
  }

  /** The last time at which the batch would not be quite full, by what is known; else a stride, longer each time. */
  private long estimatedTime(long from, long until) {
    double target = 1 - slack / 2;
    long step = 1;
    while (step < until - from && cuts.estimate(from + step).load() < target) {
      step *= 2;
    }
    if (step >= until - from && until == Cuts.NEVER - 1) {
      return from + (FIRST_STRIDE_MILLIS << Math.min(50, 2 * looks));
    }
    return lastBelow(target, from, Math.min(until, from + step));
  }

  private long lastBelow(double target, long from, long until) {
    long low = from;
    long high = until;
    while (high - low > 1) {
      long middle = low + (high - low) / 2;
      if (cuts.estimate(middle).load() < target) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
}
