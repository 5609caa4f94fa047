"""Moves a job's checkpoints to another number of tasks or threads; read `engine` first."""
