"""One step: what it runs on, where it stands, what may come in the middle of it."""
