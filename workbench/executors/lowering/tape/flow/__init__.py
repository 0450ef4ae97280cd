"""Loops and branches whose blocks run in kernels from end to end."""
