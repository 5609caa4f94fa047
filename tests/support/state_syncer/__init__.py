"""A job store with a State Syncer that leads (`cell`), and what its containers do for it."""
