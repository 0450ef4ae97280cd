"""Rows and elements named by integers."""
