"""Losses, the softmax most of them begin with, and metrics."""
