package io.penstock.tables;

/** Where the versions of a table come from. */
interface TableHistory {
  /** The version that is newest now: {@code known} itself if it still is. {@code known} may be null. */
  TableVersion newest(TableVersion known);

  /** The version of a note that an earlier run has left. */
  TableVersion noted(String note);
}
