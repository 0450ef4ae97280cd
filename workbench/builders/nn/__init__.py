"""The layers of `static.nn`."""
