"""Recorded runs in a notebook: a table to sort, filter, group and select from."""
