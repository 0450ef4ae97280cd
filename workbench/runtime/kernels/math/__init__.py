"""Vector code for element-wise work, sums, and products of matrices."""
