"""The threads that run a step."""
