"""Recorded runs: the file they are in, who writes it, and what is read from it."""
