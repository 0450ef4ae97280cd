"""Layers that only call a function with the options they were made with, one line of a table each."""
