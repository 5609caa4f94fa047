"""What the small forms of benches are held to."""
