"""`penstock` run in the test's process."""
