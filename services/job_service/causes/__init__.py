"""Why a job is not healthy."""
