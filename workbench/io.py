"""Data sets and loaders (Paddle 2.x's `paddle.io`)."""

from workbench.facade import IO, lazy

__getattr__, __dir__ = lazy("workbench.io", IO)
