"""Rules of `ops.tensor`."""
