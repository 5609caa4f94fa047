"""Where each shard goes: `place(problem, previous)`, pure. README.md of the Shard Manager has the promises."""
