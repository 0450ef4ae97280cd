"""Files shipped with the package."""
