"""Topics with event times, queries over them, and streams through the project's source and sink."""
