"""Checkpoints of runs: written, restored, the best ones kept."""
