"""Which rows of a table a server of geo-SGD gives to whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.loopback import ENDPOINT, Loopback
from workbench import fluid
from workbench.errors import InvalidArgument
from workbench.framework.program.program import Program
from workbench.parallel.servers.serving.keeper import CheckpointKeeper
from workbench.runtime.servers.messages import Message


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


def server_of_a_table(keeper: CheckpointKeeper | None = None) -> Loopback:
    """With two trainers and a table of 6 rows of zeros."""
    main, startup, config = Program(), Program(), fluid.DistributeTranspilerConfig()
    config.sync_mode, config.geo_sgd_mode = False, True
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        zeros = fluid.ParamAttr(name="table", initializer=fluid.initializer.ConstantInitializer(0.0))
        looked_up = fluid.embedding(fluid.data("ids", [None], "int64"), [6, 2], is_sparse=True, param_attr=zeros)
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(looked_up))
    transpiler = fluid.DistributeTranspiler(config)
    transpiler.transpile(0, main, ENDPOINT, 2, False, startup)
    return Loopback(2, keeper=keeper, programs=transpiler.get_pserver_programs(ENDPOINT))


def exchanged(server: Loopback, trainer: int, sequence: int, rows: list[int], since: int) -> Message:
    """A trainer adds 1 to some rows, and asks what has changed."""
    arrays = {"table.delta@ROWS": np.array(rows, np.int64), "table.delta@VALUES": np.ones((len(rows), 2), np.float32)}
    return server.ask("step", trainer, arrays, sequence=sequence, tables=["table"], since=since).result


def given(answer: Message) -> dict[int, float]:
    values = answer.arrays["table@VALUES"][:, 0].tolist()
    return dict(zip(answer.arrays["table@ROWS"].tolist(), values, strict=True))


def test_a_trainer_gets_the_rows_that_have_changed_since_it_asked_and_again_if_the_answer_is_lost() -> None:
    server = server_of_a_table()
    server.join(0), server.join(1)
    first = exchanged(server, 0, 0, [1, 4], since=0)
    assert given(first) == {1: 1, 4: 1} and first.number("round") == 1
    assert given(exchanged(server, 1, 0, [4, 5], since=0)) == {1: 1, 4: 2, 5: 1}
    for _ in range(2):
        assert given(exchanged(server, 0, 1, [0], since=1)) == {0: 1, 4: 2, 5: 1}
    assert given(exchanged(server, 0, 2, [], since=3)) == {}


def test_a_server_that_was_started_again_gives_all_rows_to_whom_its_checkpoint_is_news(tmp_path: Path) -> None:
    server = server_of_a_table(CheckpointKeeper(tmp_path, ENDPOINT, 1))
    server.join(0)
    for sequence in range(2):
        exchanged(server, 0, sequence, [3], since=sequence)
    for since, rows in [(1, [0, 1, 2, 3, 4, 5]), (2, [2])]:
        again = server_of_a_table(CheckpointKeeper(tmp_path, ENDPOINT, 0))
        assert again.join(0) == 2
        assert sorted(given(exchanged(again, 0, 2, [2], since=since))) == rows


def test_changed_rows_are_told_of_tables_only_and_nothing_is_applied_when_others_are_asked_for() -> None:
    server = server_of_a_table()
    server.join(0)
    arrays = {"table.delta@ROWS": np.array([1]), "table.delta@VALUES": np.ones((1, 2), np.float32)}
    for told, why in [
        ({"tables": ["other"], "since": 0}, "which rows of 'table' have changed, got 'other'"),
        ({"tables": ["table"]}, "since is a whole number"),
        ({"tables": ["table"], "since": -1}, "since is a whole number"),
    ]:
        with pytest.raises(InvalidArgument, match=why):
            _ = server.ask("step", 0, arrays, sequence=0, **told).result
    assert not server.server.values.array("table").any()
