"""Rules of `ops.index`."""
