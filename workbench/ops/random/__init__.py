"""Random tensors, and dropout."""
