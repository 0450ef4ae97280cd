"""Activations and normalisations, and the ops that stand for both."""
