"""Running a cell over a sequence, forwards, backwards or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.builders.flow.structure import flatten, pack
from workbench.errors import ShapeError
from workbench.framework.values.spec import shape_text
from workbench.layers.layer import Layer
from workbench.layers.recurrent.cells import GatedCell
from workbench.ops.tensor.join import concat, stack, unbind
from workbench.ops.tensor.sequence import sequence_mask
from workbench.ops.tensor.shape import unsqueeze

Step = Callable[[Any, Any], tuple[Any, Any]]


def unrolled(
    step: Step, inputs: Any, states: Any, masks: Sequence[Any] | None, axis: int, is_reverse: bool, zero_padding: bool
) -> tuple[Any, Any]:
    """`step` along a sequence.

    Args:
        step: `(inputs, states)` of a step to (outputs, new states).
        inputs: a tensor, or nested ones, with time along `axis`.
        masks: per step 1 for the samples that it belongs to and 0 for those that have ended, `[batch, 1]`; the states
            of those stay.
        is_reverse: the last step first.
        zero_padding: outputs of samples that have ended are 0.

    Returns:
        the outputs, with time along `axis`, and the states after the last step.
    """
    leaves = [unbind(leaf, axis) for leaf in flatten(inputs)]
    order = range(len(leaves[0]))
    outputs: dict[int, Any] = {}
    for t in reversed(order) if is_reverse else order:
        outputs[t], new = step(pack(inputs, [steps[t] for steps in leaves]), states)
        if masks is not None:
            new = _where_going_on(masks[t], new, states)
            outputs[t] = _masked(masks[t], outputs[t]) if zero_padding else outputs[t]
        states = new
    columns = zip(*(flatten(outputs[t]) for t in order), strict=True)
    return pack(outputs[0], [stack(list(column), axis=axis) for column in columns]), states


def _where_going_on(mask: Any, new: Any, old: Any) -> Any:
    """The new states of samples that go on, the old ones of those that have ended."""
    pairs = zip(flatten(new), flatten(old), strict=True)
    return pack(new, [n * mask + o * (1.0 - mask) for n, o in pairs])


def _masked(mask: Any, outputs: Any) -> Any:
    return pack(outputs, [leaf * mask for leaf in flatten(outputs)])


def masks_of(sequence_length: Any, steps: int, dtype: Any) -> list[Any]:
    """Per step 1 for the samples that are longer, else 0: `[batch, 1]`."""
    mask = sequence_mask(sequence_length, maxlen=steps, dtype=dtype)
    return [unsqueeze(column, -1) for column in unbind(mask, 1)]


def run_cell(
    cell: Any, inputs: Any, states: Any, sequence_length: Any, time_major: bool, is_reverse: bool, zero_padding: bool,
    **options: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """A cell along a sequence; see `unrolled`.

    Raises:
        ShapeError: the length of the sequence is not known.
    """
    axis = 0 if time_major else 1
    first = flatten(inputs)[0]
    if len(first.shape) < 2 or first.shape[axis] < 1:
        layout = "[time, batch, ...]" if time_major else "[batch, time, ...]"
        raise ShapeError("a recurrent layer takes sequences of a known length", layout, shape_text(first.shape))
    if states is None:
        states = cell.get_initial_states(inputs, batch_dim_idx=1 - axis)
    masks = None if sequence_length is None else masks_of(sequence_length, first.shape[axis], first.dtype)

    def call(inputs: Any, states: Any) -> tuple[Any, Any]:
        return cell(inputs, states, **options)

    step: Step = call
    if isinstance(cell, GatedCell) and not options:  # which it would refuse
        inputs, step = cell.project(inputs), cell.step
    return unrolled(step, inputs, states, masks, axis, is_reverse, zero_padding)


class RNN(Layer):
    """A cell along a sequence.

    Args:
        cell: a layer that takes inputs and states of a step and returns outputs and new states.
        is_reverse: begin with the last step.
        time_major: inputs are `[time, batch, ...]` instead of `[batch, time, ...]`.

    Example:
        >>> outputs, state = wb.nn.RNN(wb.nn.GRUCell(3, 4))(wb.ones([2, 5, 3]))
        >>> list(outputs.shape), list(state.shape)
        ([2, 5, 4], [2, 4])
    """

    def __init__(self, cell: Any, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any) -> Any:
        """(outputs, states after the last step).

        Args:
            inputs: a tensor, or nested ones, of a known length.
            initial_states: those of the cell, 0 if None.
            sequence_length: `[batch]`, how many steps of each sample count; the states of a sample stay once it ended.
            kwargs: passed on to the cell.
        """
        return run_cell(
            self.cell, inputs, initial_states, sequence_length, self.time_major, self.is_reverse, False, **kwargs
        )


class BiRNN(Layer):
    """Two cells along a sequence, one forwards and one backwards; their outputs are joined.

    Args:
        cell_fw, cell_bw: the cells.
        time_major: inputs are `[time, batch, ...]` instead of `[batch, time, ...]`.

    Example:
        >>> outputs, states = wb.nn.BiRNN(wb.nn.GRUCell(3, 4), wb.nn.GRUCell(3, 4))(wb.ones([2, 5, 3]))
        >>> list(outputs.shape), len(states)
        ([2, 5, 8], 2)
    """

    def __init__(self, cell_fw: Any, cell_bw: Any, time_major: bool = False) -> None:
        super().__init__()
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    def forward(self, inputs: Any, initial_states: Any = None, sequence_length: Any = None, **kwargs: Any) -> Any:
        """(outputs of both joined along the last dimension, (states of `cell_fw`, states of `cell_bw`)).

        Args: as of `RNN`; `initial_states` is a pair.
        """
        first, second = (None, None) if initial_states is None else initial_states
        forth, last = run_cell(self.cell_fw, inputs, first, sequence_length, self.time_major, False, False, **kwargs)
        back, begun = run_cell(self.cell_bw, inputs, second, sequence_length, self.time_major, True, False, **kwargs)
        pairs = zip(flatten(forth), flatten(back), strict=True)
        return pack(forth, [concat([f, b], axis=-1) for f, b in pairs]), (last, begun)
