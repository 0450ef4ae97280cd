"""Layer: a part of a model that is called like a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, runtime_checkable

from workbench.errors import EnforceNotMet, InvalidArgument, Unimplemented
from workbench.framework.text.printable import printable
from workbench.framework.values.dtype import DType, as_dtype
from workbench.framework.values.place import CPUPlace
from workbench.layers.hooks import Hook, Hooks
from workbench.layers.state import LayerState
from workbench.layers.trail import name_layer
from workbench.layers.values import set_dtype


@runtime_checkable
class OfInstance(Protocol):
    """An attribute that works on the object whose attribute it is."""

    def for_copy(self, original: Any, copied: Any) -> Any:
        """The same for a copy of that object."""


class Layer(LayerState):
    """A part of a model: parameters, buffers, further layers, and what `forward` makes of an input with them.

    A subclass calls `super().__init__()`, sets attributes to parameters (`create_parameter`) and layers, and defines
    `forward`. It is used by calling it. In static mode parameters are made in, and `forward` builds ops into, the
    current programs.

    Args:
        name_scope: what it is counted under; the class's name in snake case if None.
        dtype: of the parameters it makes.

    Attributes:
        training: whether it behaves as in training (see `train` and `eval`).

    Example:
        >>> class Scaled(wb.nn.Layer):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.inner = wb.nn.Linear(2, 3)
        ...         self.scale = self.create_parameter([1])
        ...     def forward(self, x):
        ...         return self.inner(x) * self.scale
        >>> net = Scaled()
        >>> [name for name, parameter in net.named_parameters()]
        ['scale', 'inner.weight', 'inner.bias']
        >>> print(net)
        Scaled(
          (inner): Linear(in_features=2, out_features=3, dtype=float32)
        )
    """

    training: bool

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        super().__init__(name_scope, dtype)
        vars(self).update(_forward_pre_hooks=Hooks(), _forward_post_hooks=Hooks())

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the layer computes; a subclass defines it.

        Raises:
            Unimplemented: the subclass has none.
        """
        raise Unimplemented(f"{type(self).__name__} has no forward(); a layer says there what it computes")

    def __copy__(self) -> Self:
        """Another layer with the same parameters; what is recorded of a method of this one is not the copy's."""
        reduced: Any = self.__reduce_ex__(4)
        make, args, state = reduced[:3]
        copied: Self = make(*args)
        restore: Any = getattr(copied, "__setstate__", vars(copied).update)
        restore(state)
        for name, value in [*vars(copied).items()]:
            if isinstance(value, OfInstance):
                vars(copied)[name] = value.for_copy(self, copied)
        return copied

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        try:
            if self._forward_pre_hooks:
                inputs = self._before(inputs)
            outputs = self.forward(*inputs, **kwargs)
            return self._after(inputs, outputs) if self._forward_post_hooks else outputs
        except EnforceNotMet as error:
            name_layer(error, self)
            raise

    def _before(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs as the hooks leave them."""
        for hook in self._forward_pre_hooks.in_order():
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        return inputs

    def _after(self, inputs: tuple[Any, ...], outputs: Any) -> Any:
        """The outputs as the hooks leave them."""
        for hook in self._forward_post_hooks.in_order():
            changed = hook(self, inputs, outputs)
            outputs = outputs if changed is None else changed
        return outputs

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> Hook:
        """Have `hook(layer, inputs)` called before `forward`; what it returns, if not None, takes the inputs' place.

        Returns:
            a handle; its `remove()` ends it.
        """
        return self._forward_pre_hooks.add(hook)

    def register_forward_post_hook(self, hook: Callable[..., Any]) -> Hook:
        """Have `hook(layer, inputs, output)` called after `forward`; what it returns, if not None, is the output.

        Returns:
            a handle; its `remove()` ends it.
        """
        return self._forward_post_hooks.add(hook)

    def clear_gradients(self) -> None:
        """Clear the gradients of all parameters that are trained."""
        for parameter in self.parameters():
            if parameter.trainable:
                parameter.clear_gradient()

    def backward(self, *inputs: Any) -> None:
        """Layers have no backward; gradients follow from what `forward` computes."""
        raise InvalidArgument("a layer has no backward(); call backward() of the loss it computed")

    # Dtype and device

    def to(self, device: Any = None, dtype: Any = None, blocking: bool | None = None) -> Any:
        """Move the layer to a device, and its floating parameters and buffers to a dtype.

        Args:
            device: "cpu" or a `CPUPlace`; None leaves it where it is.
            dtype: a dtype; None keeps them.
            blocking: accepted for Paddle's sake.

        Returns:
            this layer.

        Raises:
            Unimplemented: another device.
        """
        if not (device is None or isinstance(device, CPUPlace) or str(device).split(":")[0] == "cpu"):
            raise Unimplemented(f"layers live on the CPU so far, not on {device!r}")
        return self if dtype is None else self._change_dtype(as_dtype(dtype), ())

    def astype(self, dtype: Any = None) -> Any:
        """`to(dtype=dtype)`."""
        return self.to(dtype=dtype)

    def float(self, excluded_layers: Any = None) -> Any:
        """Floating parameters and buffers in float32, but those of layers of the `excluded_layers` classes."""
        return self._change_dtype(as_dtype("float32"), _classes(excluded_layers))

    def float16(self, excluded_layers: Any = None) -> Any:
        """Floating parameters and buffers in float16, but those of layers of the `excluded_layers` classes."""
        return self._change_dtype(as_dtype("float16"), _classes(excluded_layers))

    def bfloat16(self, excluded_layers: Any = None) -> Any:
        """Floating parameters and buffers in bfloat16, but those of layers of the `excluded_layers` classes."""
        return self._change_dtype(as_dtype("bfloat16"), _classes(excluded_layers))

    def _change_dtype(self, dtype: DType, excluded: tuple[type, ...]) -> Any:
        for layer in self.sublayers(include_self=True):
            if isinstance(layer, excluded):
                continue
            layer._dtype = dtype.name
            for tensor in (*layer._parameters.values(), *layer._buffers.values()):
                if tensor is not None and tensor.dtype.is_float:
                    set_dtype(tensor, dtype)
        return self

    # Text

    def extra_repr(self) -> str:
        """What the text of the layer says besides its class and its sublayers."""
        return ""

    def __repr__(self) -> str:
        told = self.extra_repr()
        below = [f"({printable(name)}): {layer!r}".replace("\n", "\n  ") for name, layer in self._sub_layers.items()]
        if not below:
            return f"{type(self).__name__}({told})"
        return "\n  ".join([f"{type(self).__name__}({told}", *below]) + "\n)"


def _classes(excluded: Any) -> tuple[type, ...]:
    if excluded is None:
        return ()
    return tuple(excluded) if isinstance(excluded, list | tuple) else (excluded,)
