"""Attention, and the encoders and decoders made of it."""
