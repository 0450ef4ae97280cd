"""Convolutions of sequences, images and volumes."""
