"""Rules of `ops.math`, of all element-wise ops, and of views."""
