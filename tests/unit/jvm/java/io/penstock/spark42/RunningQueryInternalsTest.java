package io.penstock.spark42;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreMap;
import org.apache.spark.sql.internal.SQLConf;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Every method outside Spark's stable API that this project's running-query and Kafka classes call. A new version of
 * Spark that lacks one fails here by name. Then look at the class in the last column.
 */
class RunningQueryInternalsTest {
  private static final String RUNTIME = "org.apache.spark.sql.execution.streaming.runtime.";
  private static final String STREAMING = "org.apache.spark.sql.connector.read.streaming.";
  private static final String KAFKA = "org.apache.spark.sql.kafka010.";

  @ParameterizedTest(name = "{0}.{1}")
  @CsvSource({
    "StreamExecution, QUERY_ID_KEY, java.lang.String",
    "StreamExecution, id, java.util.UUID",
    "StreamExecution, name, java.lang.String",
    "StreamExecution, runId, java.util.UUID",
    "StreamExecution, sources, scala.collection.immutable.Seq",
    "StreamExecution, getLatestExecutionContext, " + RUNTIME + "StreamExecutionContext",
    "StreamExecution, lastExecution, " + RUNTIME + "IncrementalExecution",
    "StreamExecution, lastProgress, org.apache.spark.sql.streaming.StreamingQueryProgress",
    "StreamExecution, queryExecutionThread, " + RUNTIME + "QueryExecutionThread",
    "StreamExecutionContext, batchId, long",
    "StreamExecutionContext, endOffsets, " + RUNTIME + "StreamProgress",
    "StreamExecutionContext, startOffsets, " + RUNTIME + "StreamProgress",
    "StreamExecutionContext, latestOffsets, " + RUNTIME + "StreamProgress",
    "MicroBatchExecution, watermarkTracker, " + RUNTIME + "WatermarkTracker",
    "WatermarkTracker, currentWatermark, long",
    "WatermarkTracker, setWatermark, void",
    "WatermarkTracker, updateWatermark, void",
    "WatermarkTracker, watermarkMap, scala.collection.immutable.Map",
    "MultipleWatermarkPolicy, chooseGlobalWatermark, long",
    "MicroBatchExecution, watermarkTracker_$eq, void",
    "MicroBatchExecution, triggerExecutor, " + RUNTIME + "TriggerExecutor",
    "StreamExecution, logicalPlan, org.apache.spark.sql.catalyst.plans.logical.LogicalPlan",
    "StreamExecution, sparkSessionForStream, org.apache.spark.sql.classic.SparkSession",
    "StreamExecutionContext, offsetSeqMetadata, "
        + "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase",
    "IncrementalExecution, currentBatchId, long",
    "IncrementalExecution, watermarkPropagator, " + RUNTIME + "WatermarkPropagator",
    "WatermarkPropagator, purge, void",
    "StreamingQueryWrapper, streamingQuery, " + RUNTIME + "StreamExecution",
  })
  void theStreamingRuntimeHasWhatRunningQueryUses(String type, String method, String result) {
    requireMethod(RUNTIME + type, method, result, "io.penstock.spark42.RunningQuery");
  }

  @ParameterizedTest(name = "{0}.{1}")
  @CsvSource({
    "org.apache.spark.sql.classic.SparkSession, sharedState, org.apache.spark.sql.internal.SharedState",
    "org.apache.spark.sql.internal.SharedState, activeStreamingQueries, java.util.concurrent.ConcurrentHashMap",
  })
  void theSessionGivesItsActiveQueries(String type, String method, String result) {
    requireMethod(type, method, result, "io.penstock.spark42.RunningQuery");
  }

  @ParameterizedTest(name = "{0}.{1}")
  @CsvSource({
    "KafkaSourceProvider$KafkaScan, toMicroBatchStream, " + STREAMING + "MicroBatchStream, BalancedScan",
    "KafkaMicroBatchStream, kafkaOffsetReader, " + KAFKA + "KafkaOffsetReader, broker.KafkaLogs",
    "KafkaOffsetReader, driverKafkaParams, java.util.Map, broker.KafkaLogs",
    "KafkaOffsetReaderAdmin, admin, org.apache.kafka.clients.admin.Admin, broker.KafkaLogs",
    "KafkaBatchInputPartition, offsetRange, " + KAFKA + "KafkaOffsetRange, BalancedStream",
    "KafkaOffsetRange, topicPartition, org.apache.kafka.common.TopicPartition, BalancedStream",
    "KafkaOffsetRange, fromOffset, long, BalancedStream",
  })
  void theKafkaConnectorHasWhatTheSourceUses(String type, String method, String result, String user) {
    requireMethod(KAFKA + type, method, result, "io.penstock.kafka.source." + user);
  }

  @Test
  void theLoadedStoresCanBeGivenBack() throws NoSuchFieldException {
    String stores = "org.apache.spark.sql.execution.streaming.state.StateStore$";
    requireMethod(stores, "removeFromLoadedProvidersAndClose", "void", "LoadedStores");
    assertEquals(scala.collection.mutable.HashMap.class, LoadedStores.LOADED.type());
  }

  @Test
  void theStoresOnTheHeapCanBeGivenRows() {
    assertEquals(java.util.TreeMap.class, HeapRows.method(HeapRows.LOADED).getReturnType());
    assertEquals(HDFSBackedStateStoreMap.class, HeapRows.method(HeapRows.NEW_MAP).getReturnType());
    HeapRows.method(HeapRows.CHANGES, long.class, HDFSBackedStateStoreMap.class);
  }

  /** Spark takes any name of a setting: one that it has renamed would have no effect. */
  @Test
  void theInternalSettingsOfAHostHaveTheirNames() {
    assertEquals("spark.sql.streaming.pollingDelay", SQLConf.STREAMING_POLLING_DELAY().key());
    assertEquals("spark.sql.ui.explainMode", SQLConf.UI_EXPLAIN_MODE().key());
  }

  private static void requireMethod(String type, String method, String result, String user) {
    try {
      Class<?> owner = Class.forName(type, false, RunningQueryInternalsTest.class.getClassLoader());
      List<String> results = Arrays.stream(owner.getMethods())
          .filter(candidate -> candidate.getName().equals(method))
          .map(candidate -> candidate.getReturnType().getName())
          .distinct()
          .toList();
      assertEquals(List.of(result), results, "Spark's " + type + "." + method + " changed; " + user + " uses it");
    } catch (ClassNotFoundException error) {
      fail("Spark has no class " + type + " any more; " + user + " uses it", error);
    }
  }
}
