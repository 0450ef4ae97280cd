"""Fleets with parameter servers (F-10 … F-15)."""
