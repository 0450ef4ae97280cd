"""Gradients as arrays, and what `backward()` does with them: leaves get them when the whole walk has ended well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.dygraph.tape.arrivals import ToldWalk, receivers
from workbench.dygraph.tape.node import TapeNode
from workbench.dygraph.tape.walk import BackwardWalk
from workbench.errors import InvalidArgument
from workbench.framework.gradmode import recording_gradients
from workbench.framework.values import rows
from workbench.framework.values.rows import Rows
from workbench.runtime.undisturbed import in_one_call


class ArrayGradients:
    """Arithmetic of a walk that is not recorded.

    Args:
        wrap: makes a tensor of an array, for hooks and for gradients users see.
    """

    def __init__(self, wrap: Callable[[Any], Any]) -> None:
        self._wrap = wrap
        self._given: set[int] = set()

    def add(self, first: Any, second: Any) -> Any:
        if type(first) is np.ndarray and type(second) is np.ndarray:
            return np.asarray(first + second)
        return rows.add(np, [first, second])

    def backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> Sequence[Any]:
        if isinstance(gradients, Rows):  # only sums and leaves take sparse ones
            gradients = gradients.to_dense(np)
        return node.call.backward(node, gradients, wanted)

    def through(self, hook: Any, gradient: Any) -> Any:
        """What a hook makes of a gradient, or does to it: what else the gradient goes to has it as it was.

        Raises:
            InvalidArgument: something of another shape.
        """
        seen = gradient
        if type(gradient) is np.ndarray:
            seen = gradient.view()
            seen.flags.writeable = False  # so that a write in place takes memory of its own
            self.is_given(gradient)
        shown = self._wrap(seen)
        shown.stop_gradient = False  # as Paddle shows it; nothing is recorded all the same
        with recording_gradients.replaced(False):
            changed = hook(shown)
        if changed is None:
            if shown.array is seen:
                return gradient
            changed = shown
        array = np.array(changed)
        if array.shape != gradient.shape:
            raise InvalidArgument(
                "a hook returns a gradient like the one it is given, or None\n"
                f"  expected: shape {list(gradient.shape)}\n  got:      shape {list(array.shape)}"
            )
        return array.astype(gradient.dtype, copy=False)

    def keep(self, tensor: Any, gradient: Any) -> None:
        tensor.grad = self.tensor(gradient)

    def is_given(self, gradient: Any) -> None:
        """Note a gradient that belongs to somebody else."""
        self._given.add(id(gradient))

    def tensor(self, gradient: Any) -> Any:
        """A gradient as a tensor with memory of its own: rules hand on what they get, so two may be one array."""
        if not isinstance(gradient, Rows) and (gradient.base is not None or id(gradient) in self._given):
            gradient = gradient.copy()
        self._given.add(id(gradient))
        wrapped = self._wrap(gradient)
        wrapped.stop_gradient = False
        return wrapped


def backward(starts: Iterable[tuple[Any, Any]], retain: bool, wrap: Callable[[Any], Any]) -> None:
    """Walk back and add to the gradients of all leaves; whatever fails, and whenever Ctrl-C comes, to all or to none.

    Args:
        starts: sources (or leaves), each with its gradient as an array.
        retain: keep the values for another walk.
        wrap: makes a tensor of an array.

    Raises:
        PreconditionNotMet: values were freed or overwritten. EnforceNotMet: a gradient could not be computed.
    """
    math = ArrayGradients(wrap)
    told = ToldWalk(math, retain, partial(_total, math)) if receivers else None
    walk = told or BackwardWalk(math, retain)
    for source, gradient in starts:
        math.is_given(gradient)
        walk.start(source, gradient)
    walk.run()
    if told is not None:
        totals = told.totals()
    else:
        arrived = [(leaf, _hooked(math, leaf, gradient)) for leaf, gradient in walk.leaves.values()]
        totals = [(leaf, _added(math, leaf, gradient)) for leaf, gradient in arrived]
    grads = [(leaf, math.tensor(total)) for leaf, total in totals]
    in_one_call([partial(setattr, leaf, "_grad", gradient) for leaf, gradient in grads])  # Ctrl-C has all or none
    walk.finish()


def _total(math: ArrayGradients, leaf: Any, gradient: Any) -> Any:
    """What `grad` of a leaf becomes with a gradient that has come to it."""
    return _added(math, leaf, _hooked(math, leaf, gradient))


def _added(math: ArrayGradients, leaf: Any, gradient: Any) -> Any:
    return gradient if leaf.grad is None else math.add(leaf.grad.array, gradient)


def _hooked(math: ArrayGradients, leaf: Any, gradient: Any) -> Any:
    for hook in list((leaf._hooks or {}).values()):
        gradient = math.through(hook, gradient)
    return gradient
