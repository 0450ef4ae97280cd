"""Kernels of row programs, made from the bodies of ops."""
