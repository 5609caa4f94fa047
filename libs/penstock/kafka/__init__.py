"""How a Kafka is reached, secured or not: one value, for clients of Python and of Java."""
