"""The `Model` itself."""
