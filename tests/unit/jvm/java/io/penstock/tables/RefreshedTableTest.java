package io.penstock.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;

class RefreshedTableTest {
  private static final long INTERVAL = 60_000_000_000L;
  private static final long BEGIN = 5_000_000_000L;
  private static final TableVersion FIRST = version("first", new StructType().add("k", DataTypes.LongType));
  private static final TableVersion SECOND =
      version("second", new StructType().add("more", DataTypes.StringType).add("k", DataTypes.LongType));

  /** What is there now, and how often it was looked at. */
  private static final class Present implements TableHistory {
    private TableVersion newest = FIRST;
    private int looks;

    @Override
    public TableVersion newest(TableVersion known) {
      looks++;
      return newest;
    }

    @Override
    public TableVersion noted(String note) {
      throw new IllegalStateException("only at the start of a task");
    }
  }

  private final Present present = new Present();
  private final RefreshedTable table = new RefreshedTable("names", present, INTERVAL, FIRST, BEGIN);

  @Test
  void beforeTheIntervalNobodyLooks() {
    present.newest = SECOND;
    assertFalse(table.refresh(BEGIN));
    assertFalse(table.refresh(BEGIN + INTERVAL - 1));
    assertEquals(0, present.looks);
    assertSame(FIRST, table.current());
  }

  @Test
  void fromTheIntervalOnTheNewerVersionIsInForce() {
    present.newest = SECOND;
    assertTrue(table.refresh(BEGIN + INTERVAL));
    assertSame(SECOND, table.current());
    assertEquals(1, present.looks);
  }

  @Test
  void aLookThatFindsNothingNewBeginsTheIntervalAgain() {
    assertFalse(table.refresh(BEGIN + INTERVAL + 7));
    present.newest = SECOND;
    assertFalse(table.refresh(BEGIN + 2 * INTERVAL + 6));
    assertEquals(1, present.looks);
    assertTrue(table.refresh(BEGIN + 2 * INTERVAL + 7));
    assertEquals(2, present.looks);
  }

  @Test
  void anIntervalOfZeroLooksBeforeEachBatch() {
    RefreshedTable always = new RefreshedTable("names", present, 0, FIRST, BEGIN);
    assertFalse(always.refresh(BEGIN));
    present.newest = SECOND;
    assertTrue(always.refresh(BEGIN));
    assertEquals(2, present.looks);
  }

  @Test
  void aClockThatPassesItsGreatestNumberGoesOn() {
    long late = Long.MAX_VALUE - 1;
    RefreshedTable old = new RefreshedTable("names", present, INTERVAL, FIRST, late);
    present.newest = SECOND;
    assertFalse(old.refresh(late + INTERVAL - 1));
    assertTrue(old.refresh(late + INTERVAL));
  }

  @Test
  void aVersionWithAnotherTypeIsRefusedAndTheOldOneStays() {
    present.newest = version("other", new StructType().add("k", DataTypes.StringType));
    String said = assertThrows(TableChangedException.class, () -> table.refresh(BEGIN + INTERVAL)).getMessage();
    assertTrue(said.startsWith("tables.names: the column k is STRING now, and was BIGINT"), said);
    assertSame(FIRST, table.current());
  }

  private static TableVersion version(String note, StructType columns) {
    return new TableVersion(note, columns, null);
  }
}
