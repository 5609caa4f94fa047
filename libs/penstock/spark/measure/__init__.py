"""What a task and its host use and report: progress, traffic by key group, loads. Pure."""
