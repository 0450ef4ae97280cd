"""PyLayer: an op whose forward and backward users write in Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from sys import _getframe
from typing import Any

import numpy as np

from workbench.dygraph.autograd.modes import enable_grad, no_grad
from workbench.dygraph.kinds import Kind
from workbench.dygraph.overwrites import clock
from workbench.dygraph.tape.node import TapeNode, TapeOutput, next_number
from workbench.dygraph.tape.packing import PackingHooks, hooks_in_use, pack, packing
from workbench.dygraph.tensor.tensor import Tensor, tensor_from
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.gradmode import recording_gradients
from workbench.framework.site import is_ours
from workbench.framework.values.rows import Rows


class PyLayerContext:
    """What `forward` leaves for `backward`: saved tensors, and attributes of any name.

    Example:
        >>> class Cube(wb.autograd.PyLayer):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (x,) = ctx.saved_tensor()
        ...         return g * 3 * x * x
        >>> x = wb.to_tensor([2.0], stop_gradient=False)
        >>> Cube.apply(x).backward()
        >>> x.grad.item()
        12.0
    """

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._materializes = True
        self._not_differentiable: list[Tensor] = []
        self._not_inplace: list[Tensor] = []

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `backward`; overwriting them in between is noticed."""
        self._saved = tensors

    def saved_tensor(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        return self._saved

    @property
    def container(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        return self._saved

    def mark_not_inplace(self, *tensors: Tensor) -> None:
        """Say of inputs that `forward` returns that they were not overwritten."""
        self._not_inplace += tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say of outputs that no gradient flows through them."""
        self._not_differentiable += tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` is given zeros (True, as it is by default) or None for outputs nothing depends on."""
        self._materializes = bool(value)


class PyLayer:
    """Base class of ops written in Python: define the static methods `forward(ctx, …)` and `backward(ctx, …)`.

    `backward` gets the gradient of every tensor that `forward` returned and gives one for every tensor it took, in
    their order; a single one need not be a tuple, None means zero. Call it with `apply`.

    Example:
        >>> class Scaled(wb.autograd.PyLayer):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         ctx.factor = factor
        ...         return x * factor
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         return g * ctx.factor
        >>> x = wb.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> Scaled.apply(x, 3.0).sum().backward()
        >>> print(x.grad.numpy())
        [3. 3.]
    """

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """From the arguments of `apply` to tensors; nothing in it is recorded."""
        raise NotImplementedError("a PyLayer defines the static method forward(ctx, …)")

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any) -> Any:
        """From the gradients of the outputs to those of the tensors `forward` took."""
        raise NotImplementedError("a PyLayer defines the static method backward(ctx, …)")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call `forward`, and record the call if one of the tensors wants a gradient.

        Raises:
            InvalidType: `forward` returns something else than tensors.
        """
        context = PyLayerContext()
        inputs = list(_tensors([*args, *kwargs.values()]))
        with no_grad():
            returned = cls.forward(context, *args, **kwargs)
        outputs = _checked_outputs(cls, returned)
        if recording_gradients.get() and any(not t.stop_gradient and t.kind.is_float for t in inputs):
            outputs = _recorded(cls, context, inputs, outputs)
        return type(returned)(outputs) if isinstance(returned, list | tuple) else outputs[0]


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors among arguments, lists opened."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _checked_outputs(cls: type, returned: Any) -> list[Any]:
    outputs = list(returned) if isinstance(returned, list | tuple) else [returned]
    if not any(isinstance(value, Tensor) for value in outputs):
        raise InvalidType(f"{cls.__name__}.forward returns a Tensor, or a tuple with Tensors, got {returned!r}")
    return outputs


def _recorded(cls: type[PyLayer], context: PyLayerContext, inputs: list[Tensor], outputs: list[Any]) -> list[Any]:
    """The outputs with their history, as new tensors: neither an input nor what `forward` keeps changes."""
    recorded = [Tensor(value.array) if isinstance(value, Tensor) else value for value in outputs]
    numbers = {id(value): i for i, value in enumerate(outputs) if isinstance(value, Tensor)}
    kinds = [value.kind if isinstance(value, Tensor) else None for value in outputs]
    node = TapeNode()
    node.arrays = [t.array if isinstance(t, Tensor) else t for t in context._saved]
    pack(node, [isinstance(t, Tensor) for t in context._saved])
    node.call = PyLayerCall(cls, context, inputs, kinds, numbers)
    node.edges = tuple([None if t.stop_gradient or not t.kind.is_float else t.source or t for t in inputs])
    node.number, node.time = next_number(), clock.now
    node.hooks = node.retained = node.rewrites = None
    node.is_view = False
    frame: Any = _getframe(1)
    while is_ours(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    node.code, node.lasti = frame.f_code, frame.f_lasti
    for i, (value, one) in enumerate(zip(outputs, recorded, strict=True)):
        closed = any(value is t for t in context._not_differentiable)
        if isinstance(one, Tensor) and one.kind.is_float and not closed:
            one.source, one.stop_gradient = node if node.call.is_single else TapeOutput(node, i), False
    context._not_differentiable, context._not_inplace = [], []
    return recorded


class PyLayerCall:
    """One recorded call of a PyLayer. The values of saved tensors are the node's, this has their histories."""

    saves, is_users = True, True

    def __init__(
        self,
        cls: type[PyLayer],
        context: PyLayerContext,
        inputs: Sequence[Tensor],
        kinds: Sequence[Kind | None],
        numbers: dict[int, int],
    ) -> None:
        self.name, self._class, self._context = cls.__name__, cls, context
        self._input_kinds = [t.kind for t in inputs]
        self._output_kinds = kinds
        self.outputs = len(kinds)
        self.is_single = len(kinds) == 1
        self._origins = [self._origin(t, numbers) for t in context._saved]
        context._saved = ()

    def _origin(self, saved: Any, numbers: dict[int, int]) -> Any:
        """Where a saved tensor came from: the number of an output, else a source, else the leaf itself."""
        if not isinstance(saved, Tensor):
            return None
        return numbers.get(id(saved), saved.source or saved)

    def backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> list[Any]:
        parts = [gradients] if self.is_single else gradients
        with no_grad():
            grads = self._call(node, [None if g is None else Tensor(g) for g in parts])
        return [None if g is None else g.array for g in grads]

    def recorded_backward(self, node: TapeNode, gradients: Any, wanted: Sequence[bool]) -> list[Any]:
        """The same on tensors, recorded in turn."""
        with enable_grad():
            return self._call(node, [gradients] if self.is_single else list(gradients))

    def _call(self, node: TapeNode, gradients: list[Any]) -> list[Any]:
        context = self._context
        context._saved = tuple([self._restored(node, a, o) for a, o in zip(node.arrays, self._origins, strict=True)])
        given = []
        for gradient, kind in zip(gradients, self._output_kinds, strict=True):
            if kind is not None:
                materialized = context._materializes and gradient is None
                given.append(Tensor(np.zeros(kind.shape, kind.dtype.numpy)) if materialized else gradient)
        try:
            return self._checked(self._class.backward(context, *given))
        finally:
            context._saved = ()

    def _restored(self, node: TapeNode, array: Any, origin: Any) -> Any:
        if origin is None:
            return array
        if isinstance(origin, Tensor):
            return origin
        if isinstance(origin, int):
            origin = node if self.is_single else TapeOutput(node, origin)
        return tensor_from(array, origin)

    def _checked(self, returned: Any) -> list[Any]:
        grads = list(returned) if isinstance(returned, list | tuple) else [returned]
        if len(grads) != len(self._input_kinds):
            raise InvalidArgument(
                f"{self.name}.backward gives one gradient for every tensor that forward took\n"
                f"  expected: {len(self._input_kinds)}\n  got:      {len(grads)}"
            )
        for number, (gradient, kind) in enumerate(zip(grads, self._input_kinds, strict=True)):
            if gradient is None:
                continue
            if not isinstance(gradient, Tensor):
                raise InvalidType(
                    f"{self.name}.backward gives Tensors or None, got {type(gradient).__name__} at position {number}"
                )
            if gradient.kind.shape != kind.shape and not isinstance(gradient.array, Rows):
                raise InvalidArgument(
                    f"{self.name}.backward: gradient {number} has the shape of the tensor it belongs to\n"
                    f"  expected: {list(kind.shape)}\n  got:      {gradient.shape}"
                )
        return grads


class saved_tensors_hooks:
    """Inside the `with` body, what recorded ops save for their gradients goes through `pack_hook`, and through
    `unpack_hook` when it is needed.

    Args:
        pack_hook: from a Tensor to anything. unpack_hook: from that to the Tensor.

    Example:
        >>> import numpy as np
        >>> x = wb.to_tensor([2.0], stop_gradient=False)
        >>> with wb.autograd.saved_tensors_hooks(lambda t: t.numpy(), lambda a: wb.to_tensor(a)):
        ...     y = x * x
        >>> y.backward()
        >>> x.grad.item()
        4.0
    """

    def __init__(self, pack_hook: Any, unpack_hook: Any) -> None:
        self._hooks = PackingHooks(lambda array: pack_hook(Tensor(array)), lambda kept: _array(unpack_hook(kept)))

    def __enter__(self) -> None:
        if not hooks_in_use:
            hooks_in_use.append(self._hooks)
        self._body = packing.replaced(self._hooks)
        self._body.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._body.__exit__(*error)


def _array(unpacked: Any) -> Any:
    if not isinstance(unpacked, Tensor):
        raise InvalidType(f"unpack_hook gives the Tensor that pack_hook was given, got {type(unpacked).__name__}")
    return unpacked.array
