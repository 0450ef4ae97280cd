"""Panels of the dashboard as pictures, each by its name."""
