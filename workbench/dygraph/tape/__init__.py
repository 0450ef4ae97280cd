"""The tape: ops that were recorded, and the walk back through them."""
