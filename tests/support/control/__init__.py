"""A clock that the test moves, and rounds of a loop beside a test."""
