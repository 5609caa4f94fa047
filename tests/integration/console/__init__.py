"""The pages over a Job Service on a real store."""
