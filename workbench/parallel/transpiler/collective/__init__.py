"""Collective modes: the program itself exchanges gradients, or parameters (T-30 … T-33)."""
