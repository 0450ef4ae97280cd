"""Rules of `ops.random`."""
