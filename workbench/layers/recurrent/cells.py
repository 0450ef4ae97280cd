"""Cells: one step of a recurrent net."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from workbench.builders.flow.structure import flatten
from workbench.builders.initializers.initializer import Constant, Uniform
from workbench.builders.param_attr import ParamAttr
from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.layers.layer import Layer
from workbench.ops.math.products.matmul import matmul
from workbench.ops.nn.activation import sigmoid, tanh
from workbench.ops.nn.piecewise import relu
from workbench.ops.tensor.creation import full_like
from workbench.ops.tensor.join import split
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.slicing import slice as slice_of
from workbench.ops.tensor.tile import expand


class RNNCellBase(Layer):
    """A step of a recurrent net: `forward(inputs, states)` returns outputs and new states.

    A subclass defines `forward` and `state_shape`.

    Example:
        >>> class Sum(wb.nn.RNNCellBase):
        ...     state_shape = (3,)
        ...     def forward(self, inputs, states):
        ...         total = inputs + states
        ...         return total, total
        >>> outputs, last = wb.nn.RNN(Sum())(wb.ones([1, 4, 3]))
        >>> print(last.numpy())
        [[4. 4. 4.]]
    """

    @property
    def state_shape(self) -> Any:
        """Shape of a state without the batch, or a tuple of such shapes."""
        raise NotImplementedError(
            f"{type(self).__name__} has no state_shape; a cell says there how large its states are"
        )

    def get_initial_states(
        self, batch_ref: Any, shape: Any = None, dtype: Any = None, init_value: float = 0.0, batch_dim_idx: int = 0
    ) -> Any:
        """States filled with `init_value`, one row per sample of `batch_ref`.

        Args:
            batch_ref: a tensor, or nested ones, with the batch along `batch_dim_idx`.
            shape: shape of a state without the batch, or a tuple of them; `state_shape` if None.
            dtype: that of `batch_ref`, or float32 where that is no float, if None.
        """
        first = flatten(batch_ref)[0]
        shapes = self.state_shape if shape is None else shape
        kind = dtype or (first.dtype if first.dtype.is_float else self._dtype)
        return _each_shape(shapes, lambda dims: _rows(first, batch_dim_idx, dims, kind, init_value))


def _each_shape(shapes: Any, make: Callable[[tuple[int, ...]], Any]) -> Any:
    """`make` of a shape, or of every shape in a tuple or list of them."""
    if isinstance(shapes, int):
        return make((shapes,))
    if all(isinstance(dim, int) for dim in shapes):
        return make(tuple(dim for dim in shapes if dim != -1))
    return type(shapes)(_each_shape(shape, make) for shape in shapes)


def _rows(ref: Any, axis: int, dims: tuple[int, ...], dtype: Any, value: float) -> Any:
    """`[batch, *dims]` of a value; the batch may be known only when it runs."""
    others = [i for i in range(len(ref.shape)) if i != axis]
    one = slice_of(ref, others, [0] * len(others), [1] * len(others)) if others else ref
    column = reshape(full_like(one, value, dtype=dtype), [-1, *([1] * len(dims))])
    return expand(column, [-1, *dims])


class GatedCell(RNNCellBase):
    """A cell whose gates are `inputs @ weight_ih' + bias_ih` and `states @ weight_hh' + bias_hh`.

    `forward` is `step(project(inputs), states)`: what concerns the inputs alone can be done for a whole sequence at
    once.
    """

    gates: ClassVar[int]
    """How many gates there are."""

    def __init__(
        self, input_size: int, hidden_size: int, weight_ih_attr: Any, weight_hh_attr: Any, bias_ih_attr: Any,
        bias_hh_attr: Any, name: str | None,
    ) -> None:  # fmt: skip
        super().__init__()
        if hidden_size < 1:
            raise InvalidArgument(f"hidden_size of {type(self).__name__} is at least 1, got {hidden_size}")
        self.input_size, self.hidden_size, self._name = input_size, hidden_size, name
        rows, limit = self.gates * hidden_size, 1.0 / math.sqrt(hidden_size)
        self.weight_ih = self._gate_parameter([rows, input_size], weight_ih_attr, False, limit)
        self.weight_hh = self._gate_parameter([rows, hidden_size], weight_hh_attr, False, limit)
        self.bias_ih = self._gate_parameter([rows], bias_ih_attr, True, limit)
        self.bias_hh = self._gate_parameter([rows], bias_hh_attr, True, limit)

    def _gate_parameter(self, shape: list[int], attr: Any, is_bias: bool, limit: float) -> Any:
        """Uniform in [-limit, limit); where it is switched off, a constant that is not trained."""
        if attr is not False:
            return self.create_parameter(shape, attr, is_bias=is_bias, default_initializer=Uniform(-limit, limit))
        constant = ParamAttr(initializer=Constant(0.0 if is_bias else 1.0), trainable=False)
        return self.create_parameter(shape, constant, is_bias=is_bias)

    @property
    def state_shape(self) -> Any:
        """Shape of a state without the batch."""
        return (self.hidden_size,)

    def project(self, inputs: Any) -> Any:
        """What the inputs add to the gates, `[..., gates * hidden_size]`."""
        if inputs.shape[-1] not in (self.input_size, -1):
            raise ShapeError(
                f"{type(self).__name__} takes inputs of input_size features",
                f"[..., {self.input_size}]",
                shape_text(inputs.shape),
            )
        return matmul(inputs, self.weight_ih, transpose_y=True) + self.bias_ih

    def _recurrent(self, hidden: Any) -> Any:
        """What the last hidden state adds to the gates."""
        return matmul(hidden, self.weight_hh, transpose_y=True) + self.bias_hh

    def step(self, projected: Any, states: Any) -> tuple[Any, Any]:
        """(outputs, new states) from what `project` gave for a step."""
        raise NotImplementedError

    def forward(self, inputs: Any, states: Any = None) -> tuple[Any, Any]:
        """`[batch, input_size]` and states to outputs `[batch, hidden_size]` and new states; they are 0 if None."""
        states = self.get_initial_states(inputs) if states is None else states
        return self.step(self.project(inputs), states)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(GatedCell):
    """h' = activation(W_ih x + b_ih + W_hh h + b_hh).

    Args:
        input_size, hidden_size: features of inputs and of states.
        activation: "tanh" or "relu".
        weight_ih_attr, weight_hh_attr: `[hidden_size, input_size]` and `[hidden_size, hidden_size]`, uniform within
            1 / sqrt(hidden_size).
        bias_ih_attr, bias_hh_attr: `[hidden_size]`, in the same way; False leaves one out.

    Example:
        >>> outputs, state = wb.nn.SimpleRNNCell(3, 4)(wb.ones([2, 3]))
        >>> list(state.shape)
        [2, 4]
    """

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, activation: str = "tanh", weight_ih_attr: Any = None,
        weight_hh_attr: Any = None, bias_ih_attr: Any = None, bias_hh_attr: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        if activation not in ("tanh", "relu"):
            raise InvalidArgument(f"activation of a SimpleRNNCell is 'tanh' or 'relu', got {activation!r}")
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, name)
        self.activation = activation

    def step(self, projected: Any, states: Any) -> tuple[Any, Any]:
        """(hidden, hidden)."""
        hidden = (tanh if self.activation == "tanh" else relu)(projected + self._recurrent(states))
        return hidden, hidden

    def extra_repr(self) -> str:
        """Sizes, and the activation if it is not the usual one."""
        return super().extra_repr() + ("" if self.activation == "tanh" else f", activation={self.activation}")


class LSTMCell(GatedCell):
    """Long short-term memory: c' = f c + i tanh(g), h' = o tanh(c'), with the gates i, f, g, o in this order.

    Args:
        input_size, hidden_size: features of inputs and of states.
        weight_ih_attr, weight_hh_attr: `[4 hidden_size, input_size]` and `[4 hidden_size, hidden_size]`, uniform within
            1 / sqrt(hidden_size).
        bias_ih_attr, bias_hh_attr: `[4 hidden_size]`, in the same way; False leaves one out.

    Source: Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.

    Example:
        >>> outputs, (hidden, cell) = wb.nn.LSTMCell(3, 4)(wb.ones([2, 3]))
        >>> list(cell.shape)
        [2, 4]
    """

    gates = 4

    def __init__(
        self, input_size: int, hidden_size: int, weight_ih_attr: Any = None, weight_hh_attr: Any = None,
        bias_ih_attr: Any = None, bias_hh_attr: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, name)

    @property
    def state_shape(self) -> Any:
        """Shapes of hidden and cell state without the batch."""
        return (self.hidden_size,), (self.hidden_size,)

    def step(self, projected: Any, states: Any) -> tuple[Any, Any]:
        """(hidden, (hidden, cell))."""
        hidden, cell = states
        i, f, g, o = split(projected + self._recurrent(hidden), 4, axis=-1)
        cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
        hidden = sigmoid(o) * tanh(cell)
        return hidden, (hidden, cell)


class GRUCell(GatedCell):
    """Gated recurrent unit: h' = z h + (1 - z) c, c = tanh(W x + r (U h)), with the gates r, z, c in this order.

    Args:
        input_size, hidden_size: features of inputs and of states.
        weight_ih_attr, weight_hh_attr: `[3 hidden_size, input_size]` and `[3 hidden_size, hidden_size]`, uniform within
            1 / sqrt(hidden_size).
        bias_ih_attr, bias_hh_attr: `[3 hidden_size]`, in the same way; False leaves one out.

    Source: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder …", 2014.

    Example:
        >>> outputs, state = wb.nn.GRUCell(3, 4)(wb.ones([2, 3]))
        >>> list(state.shape)
        [2, 4]
    """

    gates = 3

    def __init__(
        self, input_size: int, hidden_size: int, weight_ih_attr: Any = None, weight_hh_attr: Any = None,
        bias_ih_attr: Any = None, bias_hh_attr: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, name)

    def step(self, projected: Any, states: Any) -> tuple[Any, Any]:
        """(hidden, hidden)."""
        x_r, x_z, x_c = split(projected, 3, axis=-1)
        h_r, h_z, h_c = split(self._recurrent(states), 3, axis=-1)
        z = sigmoid(x_z + h_z)
        candidate = tanh(x_c + sigmoid(x_r + h_r) * h_c)
        hidden = (states - candidate) * z + candidate
        return hidden, hidden
