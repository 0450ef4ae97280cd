"""Random streams."""
