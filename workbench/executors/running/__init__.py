"""A step: begun, speculated, committed; and who is told of it."""
