package io.penstock.kafka.sink.write;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** The message of a task attempt that has sent all its rows. */
public record WrittenAttempt(long attempt) implements WriterCommitMessage {}
