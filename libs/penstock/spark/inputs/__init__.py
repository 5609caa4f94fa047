"""What Kafka and the records themselves say of a job's inputs, held against what the job declares."""
