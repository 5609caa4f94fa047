package io.penstock.spark42;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStore$;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import scala.Option;
import scala.collection.mutable.HashMap;

/** A store with two versions, whose first one was loaded ahead. The files of that version are gone where it must serve. */
class PreloadedStoresTest {
  private static final StructType KEY = new StructType().add("k", "long");
  private static final StructType VALUE = new StructType().add("v", "long");
  private static final String OWN = "1.2";
  private static final String COPY = "c1";
  private static final Map<Long, Long> SECOND = Map.of(1L, 10L, 2L, 21L, 3L, 30L);

  @TempDir
  private Path checkpoint;

  private StateStoreProviderId query;

  @BeforeEach
  void writeTwoVersionsAndLoadTheFirst() {
    HDFSBackedStateStoreProvider writer = open(id(), "0.1");
    write(writer, 0, Map.of(1L, 10L, 2L, 20L));
    write(writer, 1, Map.of(2L, 21L, 3L, 30L));
    PreloadedStores.begin(root(), COPY);
    PreloadedStores.load(root(), folder(), 1, () -> HeapRows.load(open(id(), "0.1"), 1));
    assertEquals(1, PreloadedStores.size());
  }

  @AfterEach
  void forget() {
    PreloadedStores.drop(root());
    assertEquals(0, PreloadedStores.size());
    if (query != null) {
      loaded().remove(query);
    }
  }

  @Test
  void theQueryOfTheOwnerBeginsWithItAndAddsTheLastChanges() throws Exception {
    PreloadedStores.allow(root(), COPY, OWN, 2);
    Files.delete(file("1.delta"));
    assertEquals(SECOND, read(queryOwning(OWN), 2));
    assertEquals(0, PreloadedStores.size());
  }

  @Test
  void nobodyElseDoes() {
    PreloadedStores.allow(root(), COPY, OWN, 2);
    assertEquals(SECOND, read(queryOwning("1.1"), 2));
    assertEquals(1, PreloadedStores.size());
  }

  @Test
  void noneDoesBeforeItIsAllowed() {
    assertEquals(SECOND, read(queryOwning(OWN), 2));
    assertEquals(1, PreloadedStores.size());
  }

  @Test
  void theFilesCountWhereTheChangesCannotBeRead() throws Exception {
    PreloadedStores.allow(root(), COPY, OWN, 2);
    byte[] changes = Files.readAllBytes(file("2.delta"));
    Files.delete(file("2.delta"));
    HDFSBackedStateStoreProvider store = queryOwning(OWN);
    assertThrows(Exception.class, () -> store.getReadStore(2, Option.empty()));
    Files.write(file("2.delta"), changes);
    assertEquals(SECOND, read(store, 2));
  }

  @Test
  void aLaterVersionThanTheQueryBeginsWithIsOfNoUse() {
    PreloadedStores.allow(root(), COPY, OWN, 0);
    assertEquals(Map.of(1L, 10L, 2L, 20L), read(queryOwning(OWN), 1));
  }

  @Test
  void rowsOfAnotherCopyAreNotUsed() throws Exception {
    PreloadedStores.allow(root(), "c2", OWN, 2);
    Files.delete(file("1.delta"));
    HDFSBackedStateStoreProvider store = queryOwning(OWN);
    assertThrows(Exception.class, () -> store.getReadStore(2, Option.empty()));
    assertEquals(0, PreloadedStores.size());
  }

  @Test
  void anotherLoadGivesUpWhatTheFormerLeft() {
    PreloadedStores.begin(root(), "c2");
    assertEquals(0, PreloadedStores.size());
  }

  @Test
  void whatIsGivenUpWhileItIsLoadedIsNotKept() {
    assertEquals(0, PreloadedStores.load(root(), folder(), 1, () -> {
      PreloadedStores.drop(root());
      return HeapRows.load(open(id(), "0.1"), 1);
    }));
    assertEquals(0, PreloadedStores.size());
    assertEquals(0, PreloadedStores.load(root(), folder(), 1, () -> fail("it is loaded")));
  }

  @Test
  void whatIsGivenUpWhileItIsReadEndsAtItsNextRead() throws Exception {
    Configuration watched = settings(settings -> {
      settings.set("sql.streaming.runId", id().queryRunId().toString());
      PreloadedStores.watch(settings, root(), COPY);
    });
    Supplier<HeapRows> loading = () -> HeapRows.load(open(id(), watched), 1);
    assertTrue(PreloadedStores.load(root(), folder(), 1, loading) > 0);
    assertEquals(0, PreloadedStores.load(root(), folder(), 1, () -> {
      PreloadedStores.drop(root());
      loading.get();
      return fail("it was read to its end");
    }));
  }

  @Test
  void aLoadGoesOnUntilTheHeapGetsShort() {
    assertTrue(PreloadedStores.goesOn(root(), COPY, 75, 100));
    assertFalse(PreloadedStores.goesOn(root(), "c2", 75, 100));
    assertFalse(PreloadedStores.goesOn(root(), COPY, 76, 100));
    assertFalse(PreloadedStores.goesOn(root(), COPY, 75, 100));
    assertEquals(0, PreloadedStores.size());
  }

  @Test
  void aStreamThatIsNotWantedAnyMoreFails() throws Exception {
    Configuration settings = settings(each -> PreloadedStores.watch(each, root(), COPY));
    byte[] bytes = new byte[1 << 16];
    Files.write(file("large"), new byte[3 << 16]);
    try (FSDataInputStream stream = openLarge(settings)) {
      stream.readFully(bytes);
      PreloadedStores.drop(root());
      assertThrows(IOException.class, () -> stream.readFully(bytes));
    }
    try (FSDataInputStream stream = openLarge(settings(each -> { }))) {
      stream.readFully(bytes);
    }
  }

  @Test
  void twentyLoadsAtOnceReserveNoMoreThanTheHeapHasRoomFor() throws Exception {
    long bytes = Runtime.getRuntime().maxMemory() / 10;
    AtomicInteger loading = new AtomicInteger();
    CountDownLatch asked = new CountDownLatch(20);
    List<Thread> threads = IntStream.range(0, 20).mapToObj(number -> new Thread(() -> {
      PreloadedStores.load(root(), folder() + number, bytes, () -> {
        loading.incrementAndGet();
        countDownAndWait(asked);
        return HeapRows.load(open(id(), "0.1"), 1);
      });
      asked.countDown();
    })).toList();
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(1 + loading.get(), PreloadedStores.size());
    assertTrue(0 < loading.get() && loading.get() <= 10 * PreloadedStores.MOST_USED, loading + " at once");
  }

  @Test
  void bytesThatNoCollectionHasShownAreCountedOnce() {
    UncountedBytes counted = new UncountedBytes();
    assertTrue(counted.reserve(40, (bytes, uncounted) -> bytes + uncounted <= 100));
    assertTrue(counted.reserve(60, (bytes, uncounted) -> bytes + uncounted <= 100));
    assertFalse(counted.reserve(1, (bytes, uncounted) -> bytes + uncounted <= 100));
    counted.release(60);
    assertTrue(counted.add(60, (bytes, uncounted) -> uncounted == 40));
    assertTrue(counted.reserve(1, (bytes, uncounted) -> uncounted == 100));
    System.gc();
    assertTrue(counted.reserve(1, (bytes, uncounted) -> uncounted == 41));
  }

  @Test
  void noStoreIsLoadedForWhichTheHeapHasNoRoom() {
    long most = Runtime.getRuntime().maxMemory();
    assertEquals(0, PreloadedStores.load(root(), "/other", most / 2, () -> fail("it is loaded")));
    assertEquals(1, PreloadedStores.size());
  }

  @Test
  void rowsTakeAtMostHalfOfWhatIsFreeAndNoneOfAHeapThatIsMostlyUsed() {
    assertTrue(PreloadedStores.fits(45, 10, 100));
    assertFalse(PreloadedStores.fits(46, 10, 100));
    assertTrue(PreloadedStores.fits(20, 40, 100));
    assertFalse(PreloadedStores.fits(21, 40, 100));
    assertFalse(PreloadedStores.fits(1, 60, 100));
  }

  @Test
  void allIsGivenUpWhenTheHeapGetsShort() {
    assertFalse(PreloadedStores.dropIfShort(75, 100));
    assertEquals(1, PreloadedStores.size());
    assertTrue(PreloadedStores.dropIfShort(76, 100));
    assertEquals(0, PreloadedStores.size());
  }

  /** Those that load and those that are refused: all have asked. */
  private static void countDownAndWait(CountDownLatch asked) {
    asked.countDown();
    try {
      asked.await();
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  private String root() {
    return "file:" + checkpoint;
  }

  private StateStoreProviderId id() {
    return new StateStoreProviderId(new StateStoreId(root() + "/state", 0, 0, "default"), UUID.randomUUID());
  }

  private String folder() {
    return id().storeId().storeCheckpointLocation().toString();
  }

  private Path file(String name) {
    return checkpoint.resolve("state/0/0").resolve(name);
  }

  /** A store as Spark has it for a running query. */
  private HDFSBackedStateStoreProvider queryOwning(String token) {
    query = id();
    HDFSBackedStateStoreProvider store = open(query, token);
    loaded().put(query, store);
    return store;
  }

  @SuppressWarnings("unchecked")
  private static HashMap<StateStoreProviderId, StateStoreProvider> loaded() {
    return (HashMap<StateStoreProviderId, StateStoreProvider>) LoadedStores.LOADED.get(StateStore$.MODULE$);
  }

  private static HDFSBackedStateStoreProvider open(StateStoreProviderId id, String token) {
    return open(id, settings(settings -> {
      settings.set("sql.streaming.runId", id.queryRunId().toString());
      settings.set("penstock.fence.token", token);
    }));
  }

  private static Configuration settings(Consumer<Configuration> more) {
    Configuration settings = new Configuration();
    settings.set("spark.sql.streaming.checkpointFileManagerClass",
        "io.penstock.checkpoint.FencedCheckpointFileManager");
    more.accept(settings);
    return settings;
  }

  private FSDataInputStream openLarge(Configuration settings) {
    org.apache.hadoop.fs.Path large = new org.apache.hadoop.fs.Path(file("large").toUri());
    return CheckpointFileManager.create(large.getParent(), settings).open(large);
  }

  private static HDFSBackedStateStoreProvider open(StateStoreProviderId id, Configuration settings) {
    HDFSBackedStateStoreProvider provider = new HDFSBackedStateStoreProvider();
    provider.init(id.storeId(), KEY, VALUE, new NoPrefixKeyStateEncoderSpec(KEY), false, new StateStoreConf(), settings,
        false, Option.empty());
    return provider;
  }

  private static void write(HDFSBackedStateStoreProvider provider, long version, Map<Long, Long> rows) {
    StateStore store = provider.getStore(version, Option.empty(), false, false);
    new TreeMap<>(rows).forEach((key, value) -> store.put(row(key), row(value), "default"));
    store.commit();
  }

  private static Map<Long, Long> read(HDFSBackedStateStoreProvider provider, long version) {
    Map<Long, Long> rows = new TreeMap<>();
    var found = provider.getReadStore(version, Option.empty()).iterator("default");
    while (found.hasNext()) {
      var pair = found.next();
      rows.put(pair.key().getLong(0), pair.value().getLong(0));
    }
    return rows;
  }

  private static UnsafeRow row(long value) {
    UnsafeRowWriter writer = new UnsafeRowWriter(1);
    writer.resetRowWriter();
    writer.write(0, value);
    return writer.getRow().copy();
  }
}
