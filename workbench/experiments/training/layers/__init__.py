"""The loop for layers of dynamic mode."""
