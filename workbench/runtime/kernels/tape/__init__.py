"""What walks a tape: threads' programs and whole steps."""
