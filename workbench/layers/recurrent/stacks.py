"""Stacks of recurrent layers: `SimpleRNN`, `LSTM`, `GRU`."""

from __future__ import annotations

from typing import Any, ClassVar

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.layers.containers import LayerList
from workbench.layers.recurrent.cells import GatedCell, GRUCell, LSTMCell, SimpleRNNCell
from workbench.layers.recurrent.sequences import RNN, BiRNN, run_cell
from workbench.ops.random.dropout import dropout
from workbench.ops.tensor.join import concat, stack, unbind

BOTH_WAYS = ("bidirect", "bidirectional")


class RecurrentStack(LayerList):
    """Layers of cells on top of each other, each one way or both ways along the sequence.

    Parameters are called `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, …, with `_reverse` for those of
    the way back.
    """

    cell: ClassVar[type[GatedCell]]
    """What the layers are made of."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int, direction: str, time_major: bool, dropout: float,
        **cell_options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if direction not in ("forward", *BOTH_WAYS):
            raise InvalidArgument(f"direction is 'forward' or 'bidirect' (or 'bidirectional'), got {direction!r}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.time_major, self.dropout = time_major, dropout
        self.num_directions = 2 if direction in BOTH_WAYS else 1
        for number in range(num_layers):
            features = input_size if number == 0 else hidden_size * self.num_directions
            cells = [self.cell(features, hidden_size, **cell_options) for _ in range(self.num_directions)]
            both = len(cells) == 2
            self.append(BiRNN(cells[0], cells[1], time_major) if both else RNN(cells[0], False, time_major))
            for cell, way in zip(cells, ("", "_reverse")):
                for name, parameter in cell.named_parameters():
                    setattr(self, f"{name}_l{number}{way}", parameter)

    @property
    def state_components(self) -> int:
        """How many states there are: 2 of an LSTM, hidden and cell, else 1."""
        return 1

    def _cells(self) -> list[tuple[GatedCell, ...]]:
        return [(layer.cell_fw, layer.cell_bw) if isinstance(layer, BiRNN) else (layer.cell,) for layer in self]

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None) -> Any:
        """(outputs of the last layer, states of all layers after the last step).

        Args:
            inputs: `[batch, time, input_size]`, or `[time, batch, input_size]` if `time_major`; time is known.
            initial_states: `[num_layers * ways, batch, hidden_size]`, of an LSTM a pair of these; 0 if None.
            sequence_length: `[batch]`, how many steps of each sample count; outputs beyond them are 0.

        Returns:
            outputs `[batch, time, ways * hidden_size]` (or time first), and states as `initial_states`.
        """
        if len(inputs.shape) != 3:
            layout = "[time, batch, features]" if self.time_major else "[batch, time, features]"
            raise ShapeError(f"{type(self).__name__} takes sequences", layout, shape_text(inputs.shape))
        begin = self._per_cell(initial_states)
        last = []
        outputs = inputs
        for number, cells in enumerate(self._cells()):
            if number and self.dropout:
                outputs = dropout(outputs, self.dropout, training=self.training)
            ways_run = [
                run_cell(cell, outputs, next(begin), sequence_length, self.time_major, way == 1, True)
                for way, cell in enumerate(cells)
            ]
            outputs = concat([ways for ways, _ in ways_run], axis=-1) if len(ways_run) == 2 else ways_run[0][0]
            last += [states for _, states in ways_run]
        return outputs, self._together(last)

    def _per_cell(self, states: Any) -> Any:
        """The initial states of each cell in turn, None for zeros."""
        count = self.num_layers * self.num_directions
        if states is None:
            return iter([None] * count)
        parts = list(states) if self.state_components == 2 else [states]
        if len(parts) != self.state_components or any(
            len(p.shape) != 3 or p.shape[0] not in (count, -1) for p in parts
        ):
            got = ", ".join(shape_text(p.shape) for p in parts)
            raise ShapeError(
                f"initial_states of {type(self).__name__}",
                f"{self.state_components} of [{count}, batch, {self.hidden_size}]",
                got,
            )
        columns = zip(*(unbind(part, 0) for part in parts), strict=True)
        return (column if self.state_components == 2 else column[0] for column in columns)

    def _together(self, states: list[Any]) -> Any:
        """The states of all cells as the caller gets them."""
        if self.state_components == 1:
            return stack(states, axis=0)
        return tuple(stack(list(part), axis=0) for part in zip(*states, strict=True))

    def extra_repr(self) -> str:
        """Sizes, and the options that are not as usual."""
        told = [f"{self.input_size}, {self.hidden_size}"]
        told += [f"num_layers={self.num_layers}"] if self.num_layers != 1 else []
        told += [f"time_major={self.time_major}"] if self.time_major else []
        told += [f"dropout={self.dropout}"] if self.dropout else []
        return ", ".join(told)


class SimpleRNN(RecurrentStack):
    """Layers of `SimpleRNNCell`.

    Args:
        input_size, hidden_size: features of inputs and of states.
        num_layers: how many layers.
        direction: "forward", or "bidirect" for both ways.
        time_major: inputs and outputs are `[time, batch, features]` instead of `[batch, time, features]`.
        dropout: probability of dropping an output of a layer below another, in training.
        activation: "tanh" or "relu".
        weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr: as of `SimpleRNNCell`, for all cells.

    Example:
        >>> outputs, state = wb.nn.SimpleRNN(3, 4, num_layers=2)(wb.ones([2, 5, 3]))
        >>> list(outputs.shape), list(state.shape)
        ([2, 5, 4], [2, 2, 4])
    """

    cell = SimpleRNNCell

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, direction: str = "forward",
        time_major: bool = False, dropout: float = 0.0, activation: str = "tanh", weight_ih_attr: Any = None,
        weight_hh_attr: Any = None, bias_ih_attr: Any = None, bias_hh_attr: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, direction, time_major, dropout, activation=activation,
            weight_ih_attr=weight_ih_attr, weight_hh_attr=weight_hh_attr, bias_ih_attr=bias_ih_attr,
            bias_hh_attr=bias_hh_attr,
        )  # fmt: skip


class LSTM(RecurrentStack):
    """Layers of `LSTMCell`. Args: as of `SimpleRNN`.

    Example:
        >>> outputs, (hidden, cell) = wb.nn.LSTM(3, 4, direction="bidirect")(wb.ones([2, 5, 3]))
        >>> list(outputs.shape), list(hidden.shape)
        ([2, 5, 8], [2, 2, 4])
    """

    cell = LSTMCell

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, direction: str = "forward",
        time_major: bool = False, dropout: float = 0.0, weight_ih_attr: Any = None, weight_hh_attr: Any = None,
        bias_ih_attr: Any = None, bias_hh_attr: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, direction, time_major, dropout, weight_ih_attr=weight_ih_attr,
            weight_hh_attr=weight_hh_attr, bias_ih_attr=bias_ih_attr, bias_hh_attr=bias_hh_attr,
        )  # fmt: skip

    @property
    def state_components(self) -> int:
        """Hidden and cell."""
        return 2


class GRU(RecurrentStack):
    """Layers of `GRUCell`. Args: as of `SimpleRNN`.

    Example:
        >>> outputs, state = wb.nn.GRU(3, 4)(wb.ones([2, 5, 3]))
        >>> list(outputs.shape), list(state.shape)
        ([2, 5, 4], [1, 2, 4])
    """

    cell = GRUCell

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, direction: str = "forward",
        time_major: bool = False, dropout: float = 0.0, weight_ih_attr: Any = None, weight_hh_attr: Any = None,
        bias_ih_attr: Any = None, bias_hh_attr: Any = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            input_size, hidden_size, num_layers, direction, time_major, dropout, weight_ih_attr=weight_ih_attr,
            weight_hh_attr=weight_hh_attr, bias_ih_attr=bias_ih_attr, bias_hh_attr=bias_hh_attr,
        )  # fmt: skip
