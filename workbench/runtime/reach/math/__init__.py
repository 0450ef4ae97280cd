"""Vector code, sums, and products of matrices."""
