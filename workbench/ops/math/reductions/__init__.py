"""Sums, means, extremes and what else makes one number of many.

The error of a sum or mean of K numbers stays below u (log2(K) sum |numbers| + |result|), u being half the distance from
1 to the next number of the dtype. For running sums and products 2 sqrt(K) stands for log2(K).
"""
