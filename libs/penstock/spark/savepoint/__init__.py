"""Savepoints: immutable copies of a job's checkpoints; read `take` first."""
