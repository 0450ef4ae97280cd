"""What walks a tape."""
