"""Rows whose sizes are known only when the step is at them: planned and bound for the sizes they then have."""
