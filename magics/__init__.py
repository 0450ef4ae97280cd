"""Notebook magics."""
