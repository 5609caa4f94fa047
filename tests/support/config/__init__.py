"""Job configurations."""
