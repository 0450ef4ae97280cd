"""Paddle 2.x's `paddle.utils`: unique names."""

from workbench.framework import names as unique_name

__all__ = ["unique_name"]
