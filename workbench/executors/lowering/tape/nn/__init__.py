"""Rules of `ops.nn`."""
