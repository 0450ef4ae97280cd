"""Programs written down and read back: text and JSON."""
