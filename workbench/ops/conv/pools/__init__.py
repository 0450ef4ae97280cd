"""Pooling of sequences, images and volumes, and its inverse."""
