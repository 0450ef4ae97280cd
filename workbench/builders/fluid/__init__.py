"""Layers as Paddle 1.x names them: other argument names and defaults, the same operators."""
