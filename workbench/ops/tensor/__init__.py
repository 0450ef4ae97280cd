"""Tensors made, joined, cut and given other shapes."""
