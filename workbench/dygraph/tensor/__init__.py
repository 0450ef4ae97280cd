"""Tensor: a value computed at once, and how it is made, shown and changed."""
