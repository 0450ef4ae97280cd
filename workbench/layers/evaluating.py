"""A layer that computes as after `eval()` for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.layers.layer import Layer


@contextmanager
def evaluating(layer: Layer) -> Iterator[None]:
    """Have a layer, and all in it, compute as after `eval()`; then each as it was."""
    modes = [(each, each.training) for each in layer.sublayers(include_self=True)]
    layer.eval()
    try:
        yield
    finally:
        for each, is_training in modes:
            each.training = is_training
