"""Jobs on a whole stack whose result is easy to judge."""
