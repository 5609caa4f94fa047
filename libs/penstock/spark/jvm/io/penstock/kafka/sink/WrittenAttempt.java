package io.penstock.kafka.sink;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** A task attempt that has sent all its rows. */
record WrittenAttempt(long attempt) implements WriterCommitMessage {}
