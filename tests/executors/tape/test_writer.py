"""The tape around rows that turn out to have no native form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import workbench as wb
import workbench.executors.lowering.tape.table  # all rules are there before one is replaced
from tests.executors.tape.runs import compare
from tests.executors.tape.test_sums import numbers
from tests.native.one_row import kernels
from workbench.executors.lowering.operands import Scratch
from workbench.executors.lowering.tape.registry import RULES
from workbench.executors.lowering.tape.rules import expression, operands
from workbench.executors.lowering.tape.vector_code import Unsuitable, VectorCode
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.runtime.comm.sum_row import SumRow
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.tape import Tape
from workbench.runtime.words import window as words

F = wb.nn.functional
ADD = TapeWriter.add


def waiting_for_nobody(writer: TapeWriter, row: Any, waits: Any = (), raised: Any = ()) -> bool:
    """Let every "cumsum" wait for a flag of another thread, then let the real writer add the row."""
    flags = [SimpleNamespace(array=np.zeros(8, np.int64))] if row.node.type == "cumsum" else waits
    return ADD(writer, row, flags, raised)


def refused_at_once(writer: TapeWriter, row: Any) -> None:
    raise Unsuitable


def test_the_label_of_a_sum_is_there_as_long_as_the_tape() -> None:
    """Whoever has prepared the sum may be gone."""
    control = Control(kernels())
    tape, x = Tape(control.kernels), numbers(4)
    writer: Any = TapeWriter(SimpleNamespace(control=control), None, Scratch(), lambda row: (), tape)  # type: ignore[arg-type]
    state, label = lines(words.SEGMENTS + 1), np.zeros(8, np.uint8)
    writer._rows.append(None)
    writer.exchange(None, SumRow(state, label, 1, 4, 16, [x], [x], [(0, 0)]))
    assert (
        tape.words[0] == control.kernels.addresses["sum_processes"]
    )  # nobody has said that it may go on beside others
    assert any(kept is label for kept in tape.kept)


@pytest.mark.parametrize("shape", [(7, 5), (40, 30), (3, 5, 6)])
def test_pending_work_keeps_its_memory_when_the_next_row_waits_and_is_refused(shape: Any) -> None:
    def body(x: Any, y: Any) -> list[Any]:
        return [F.log_softmax(x), wb.cumsum(y)]

    rules = mock.patch.dict(RULES, {"cumsum": refused_at_once})
    with rules, mock.patch.object(TapeWriter, "add", waiting_for_nobody):
        refused = compare(body, {"x": numbers(*shape), "y": numbers(2, 3, 9)})
    assert "cumsum" in refused


def test_what_a_rule_joined_to_pending_work_goes_when_it_refuses() -> None:
    """It had doubled the operand, in place."""
    joined = []

    def doubled(writer: TapeWriter, row: Any) -> None:
        _, (x,) = operands(writer, row)
        pending = writer._vector
        expression(writer, lambda x: x * np.float32(2.0), [x], [x])
        joined.append(isinstance(pending, VectorCode) and writer._vector is not None)
        raise Unsuitable

    with mock.patch.dict(RULES, {"softmax": doubled}):
        refused = compare(lambda x: [F.softmax(wb.tanh(x))], {"x": numbers(7, 5)})
    assert refused == {"softmax"} and joined == [True]
