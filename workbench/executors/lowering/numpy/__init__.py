"""Nodes as NumPy calls into planned memory."""
