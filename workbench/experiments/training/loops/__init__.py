"""The loop itself: what it is fed, where it is, what it evaluates in between."""
