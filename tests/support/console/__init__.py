"""The console over a Job Service on real ports, and a browser to look at it."""
