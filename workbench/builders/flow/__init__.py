"""Branches and loops of programs, over values in nested containers."""
