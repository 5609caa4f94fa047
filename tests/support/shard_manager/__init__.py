"""A cell of containers on a real store (`cell`); fleets, problems and checks for placement (the rest)."""
