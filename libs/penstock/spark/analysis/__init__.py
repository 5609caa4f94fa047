"""What Spark says of a job before a task of it runs: `analyse` collects it, `require_placed` guards each start."""
