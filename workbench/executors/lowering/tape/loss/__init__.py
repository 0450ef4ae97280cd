"""Rules of `ops.loss`."""
