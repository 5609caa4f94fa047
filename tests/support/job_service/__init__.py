"""A Job Service on a real port."""
