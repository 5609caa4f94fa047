"""Spark in the test's process (`session`), in hosts (`hosts`) and in a standalone cluster; queries with state."""
