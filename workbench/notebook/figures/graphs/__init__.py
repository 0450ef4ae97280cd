"""Graphs: nodes put together in boxes, where these go, and their picture."""
