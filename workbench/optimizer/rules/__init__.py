"""The update rules: one optimizer a file."""
