package io.penstock.tables;

/** A table is no longer what the query was made for. */
public final class TableChangedException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public TableChangedException(String message) {
    super(message);
  }
}
