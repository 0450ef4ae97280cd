"""What `Model` calls while it works; public as `workbench.callbacks`."""
