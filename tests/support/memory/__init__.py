"""The job store in memory: a form of each port that the real store has; `store.py` is what they share."""
