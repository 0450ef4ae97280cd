"""Sums, means, extremes and what else makes one number of many."""
