"""Plain words below a cell: notices, and tracebacks that show the user's lines."""
