"""What `workbench bench --coverage` says of nodes: by kernels or by NumPy, why, and what share of a step they take."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest

import workbench as paddle
from tests.native.one_row import kernels
from workbench.config import override
from workbench.experiments.bench.coverage.covered import CoveredProgram, all_programs
from workbench.experiments.bench.coverage.measured import NodeCoverage, ProgramCoverage, coverage_of, lowerings
from workbench.experiments.bench.coverage.programs.recurrent import (
    BATCH,
    LENGTH,
    WIDTH,
    by_loop,
    gru_cell,
    lstm_cell,
    unrolled,
)
from workbench.experiments.bench.roofline import latest_binding, rows_by_lowering
from workbench.experiments.bench.workloads import started

PROGRAMS = all_programs()
QUICK = [name for name in PROGRAMS if name not in ("gpt", "resnet", "encoder")]


@pytest.mark.parametrize("name", QUICK)
def test_programs_train(name: str) -> None:
    for part in PROGRAMS[name].start(paddle):
        first = part.step()
        for _ in range(20):
            last = part.step()
        assert np.isfinite(last).all() and not np.array_equal(first, last)


@pytest.mark.parametrize("name", ["float64", "causal", "norms", "gan", "lstm-loop"])
def test_nodes_are_counted_as_their_rows_are_bound(name: str) -> None:
    kernels()  # skips where there are none
    by_numpy = Counter[str]()
    for part in PROGRAMS[name].start(paddle):
        part.step()
        by_numpy += rows_by_lowering(latest_binding(part))[1]
    covered = coverage_of(PROGRAMS[name], paddle, 0.0)
    assert Counter(node.type for node in covered.by_numpy) == by_numpy
    assert len(covered.nodes) >= by_numpy.total()
    assert all(node.why for node in covered.by_numpy) and 0 <= covered.share <= 1


def test_without_kernels_everything_runs_by_numpy() -> None:
    with override(cpu_tape=False):
        covered = coverage_of(PROGRAMS["quickstart-mlp"], paddle, 0.0)
    assert len(covered.by_numpy) == len(covered.nodes) > 10 and covered.share > 0.2


def sorted_integers(paddle: Any) -> Any:
    """A sort of int32, which has no kernels."""
    x = paddle.static.data("x", [None, 6], "int32")
    loss = paddle.mean(paddle.tanh(paddle.static.nn.fc(paddle.argsort(x).astype("float32"), 3)))
    paddle.optimizer.SGD(0.1).minimize(loss)
    return loss


def test_dtypes_without_kernels_are_the_reason() -> None:
    kernels()
    feed = {"x": np.ones((2, 6), np.int32)}
    program = CoveredProgram("integers", "", lambda names: [started(partial(sorted_integers, names), feed, 1)])
    reasons = {node.type: node.why for node in coverage_of(program, paddle, 0.0).nodes}
    assert reasons["argsort"] == "int32" and reasons["tanh"] == ""


def in_the_loop(paddle: Any) -> Any:
    """A loop whose body has an op that no rule is for."""
    x = paddle.static.data("x", [None, 4])
    begin = [paddle.zeros([1], "int64"), paddle.static.nn.fc(x, 4)]
    _, last = paddle.static.nn.while_loop(lambda i, h: i < 3, lambda i, h: [i + 1, paddle.lgamma(h * h + 1)], begin)
    loss = paddle.mean(last)
    paddle.optimizer.SGD(0.1).minimize(loss)
    return loss


def test_an_op_inside_of_a_loop_is_the_reason_of_the_loop() -> None:
    kernels()
    feed = {"x": np.ones((2, 4), np.float32)}
    program = CoveredProgram("loop", "", lambda names: [started(partial(in_the_loop, names), feed, 1)])
    loop = next(node for node in coverage_of(program, paddle, 0.0).nodes if node.type == "while")
    assert not loop.is_native and loop.why == "no rule for lgamma inside"


def test_shares_are_of_the_step_and_kinds_are_joined() -> None:
    slow, quick = NodeCoverage("pad", "float32", 0.03, "no rule"), NodeCoverage("mul", "float32", 0.04, "")
    program = ProgramCoverage("p", 0.09, 0.1, (slow, quick, slow, slow._replace(seconds=0.001)))
    (kind,) = program.worst()
    assert (kind.type, kind.nodes) == ("pad", 3) and kind.share == pytest.approx(0.61)
    assert program.large == [slow, slow] and program.share == pytest.approx(0.61)
    other = ProgramCoverage("q", 0.1, 0.1, (slow._replace(why=""), quick._replace(dtypes="float64", why="float64")))
    assert dict(lowerings([program, other])) == {
        "mul": {"float32": "native", "float64": "NumPy"}, "pad": {"float32": "both"}
    }  # fmt: skip


@pytest.mark.parametrize(("cell", "count"), [(lstm_cell, 2), (gru_cell, 1)])
def test_a_loop_computes_what_its_passes_written_out_do(cell: Any, count: int) -> None:
    feed = {"x": np.random.default_rng(1).standard_normal((LENGTH, BATCH, WIDTH)).astype(np.float32)}

    def body(passes: Any) -> Any:
        x = paddle.static.data("x", [LENGTH, None, WIDTH])
        return paddle.mean(passes(paddle, cell, x, [paddle.zeros_like(x[0])] * count) ** 2)

    looped, written = (started(partial(body, way), feed, 1, trains=False).step() for way in (by_loop, unrolled))
    assert np.allclose(looped, written, rtol=1e-5) and float(looped.mean()) > 1e-4
