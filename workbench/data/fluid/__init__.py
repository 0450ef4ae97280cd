"""Readers, feeders and loaders of Paddle 1.x."""
