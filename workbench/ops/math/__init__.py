"""Arithmetic element by element, reductions, and products of matrices."""
