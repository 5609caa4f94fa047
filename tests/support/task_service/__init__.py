"""A Task Service on a real port and a real store."""
