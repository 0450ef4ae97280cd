"""Rules of `ops.update`, and of collectives."""
