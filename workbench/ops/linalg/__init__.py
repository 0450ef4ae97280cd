"""Decompositions of matrices, equations solved by them, and norms."""
