"""A Spark host: a process with one session that runs many tasks. `client` is the supervisor's side of it."""
