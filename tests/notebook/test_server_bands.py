"""Parameter servers in messages and pictures: bands of their own, with what a step pushes and pulls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.test_modes import dense_model, job, sgd, table_model
from tests.servers.trainer_programs import trainer_program
from workbench import events, fluid
from workbench.framework.program.program import Program
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.model.subject import Subject
from workbench.notebook.figures.facts import Nodes
from workbench.notebook.figures.graphs.graph import graph as picture
from workbench.notebook.figures.graphs.layout import layout
from workbench.notebook.figures.text import describe

STEPS = 4
ENDPOINTS = ["127.0.0.1:6174", "127.0.0.1:6175"]


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


def cut() -> Program:
    """A trainer's program whose weight lies in two blocks on two servers, and its bias on one of them."""
    return trainer_program(200, 90, ",".join(ENDPOINTS))


def model_of(target: Any) -> Model:
    return Model(Subject.of(target, {}), dict, lambda program, name: None)


def graph_of(model: Model) -> dict[str, Any]:
    return next(message for message in model.everything() if message["type"] == "graph")


def test_every_operator_goes_to_the_servers_it_names() -> None:
    program = cut()
    message = wb.ssa(program).messages["graph"]
    named = [
        (number, server)
        for number, op in enumerate(program.global_block().ops)
        for server in sorted(set(op.attrs.get("epmap", op.attrs.get("endpoints", ()))))
    ]
    toward = message["toward"]
    names = message["servers"]["name"]
    assert names == ENDPOINTS
    assert sorted((node, names[server]) for node, server in zip(toward["node"], toward["server"])) == named
    assert {sum(node == number for node, _ in named) for number, _ in named} == {1, 2}


def test_servers_are_bands_below_the_device_and_above_them_what_goes_to_several() -> None:
    message = wb.ssa(cut()).messages["graph"]
    lanes, nodes = layout(message).lanes, Nodes.of(message)
    assert [lane.kind for lane in lanes] == ["forward", "backward", "several servers", "server", "server"]
    assert [lane.device for lane in lanes[-2:]] == [1, 2]
    several = [kind for kind, device in zip(nodes.type, nodes.device) if device == -2]
    assert sorted(set(several)) == ["fetch_barrier", "recv", "send", "send_barrier"]
    texts = [text.get_text() for text in picture(message).axes[0].texts]
    for server, pushed in zip(ENDPOINTS, message["servers"]["pushed"]):
        assert server in texts and f"pushed {pushed / 1024:.1f} KiB\npulled {pushed / 1024:.1f} KiB\na step" in texts


def test_a_server_that_only_gets_parts_has_a_band() -> None:
    with job(lambda: dense_model(sgd), True) as ((trainer,), _):
        message = wb.ssa(trainer.main).messages["graph"]
    assert {device for device in Nodes.of(message).device if device != 0} == {-2}
    assert [lane.device for lane in layout(message).lanes] == [0, 0, -2, 1, 2]


@pytest.mark.parametrize(
    ("sync", "config"),
    [(True, {}), (False, {}), (False, {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 2})],
    ids=["sync", "async", "geo"],
)
def test_bytes_of_a_step_are_those_that_servers_tell(sync: bool, config: dict[str, Any]) -> None:
    told: list[events.Exchanged] = []
    with job(lambda: dense_model(sgd), sync, **config) as ((trainer,), _):
        written = wb.ssa(trainer.main).messages["graph"]["servers"]
        with events.subscribe(told.append, events.Exchanged):
            for _ in range(STEPS):
                trainer.step()
        ran = wb.ssa(trainer.executor.compiled(trainer.main)).messages["graph"]["servers"]
    for one in (written, ran):
        sums = [[getattr(e, way) for e in told if e.executor == name] for name in one["name"] for way in WAYS]
        assert [sum(sizes) / STEPS for sizes in sums] == [one[way][k] for k in (0, 1) for way in WAYS]
    assert len(told) == 2 * STEPS // config.get("geo_sgd_need_push_nums", 1)


def test_nobody_knows_beforehand_how_many_rows_of_a_table_geo_trainers_exchange() -> None:
    with job(table_model, False, geo_sgd_mode=True, geo_sgd_need_push_nums=2) as ((trainer,), _):
        written = wb.ssa(trainer.main).messages["graph"]["servers"]
        trainer.step({"ids": np.array([3, 4])}, "table")
        ran = wb.ssa(trainer.executor.compiled(trainer.main)).messages["graph"]["servers"]
    for one in (written, ran):
        assert np.isnan([one[way] for way in WAYS]).all()


WAYS = ("pushed", "pulled")


def test_a_page_and_its_still_picture_say_what_servers_have_told() -> None:
    model = model_of(cut())
    try:
        before = graph_of(model)
        for trainer in (0, 1):
            events.emit(events.Exchanged(ENDPOINTS[1], 0, trainer, 1000 + trainer, 3000))
        events.emit(events.Exchanged("127.0.0.1:9", 0, 0, 7, 7))  # of another program
        after = graph_of(model)
    finally:
        model.close()
    assert events.LISTENERS.get(events.Exchanged, ()) == ()
    assert before["id"] == after["id"] and before["servers"]["exchanges"].tolist() == [0, 0]
    servers = after["servers"]
    assert [servers[name].tolist() for name in ("exchanges", "told_pushed", "told_pulled")] == [
        [0, 2], [0, 2001], [0, 6000],
    ]  # fmt: skip
    line = f"{ENDPOINTS[1]}: 2 exchanges: pushed 2.0 KiB, pulled 5.9 KiB"
    assert any(line in text.get_text() for text in picture(after).axes[0].texts)
    assert "told of 2 exchanges: pushed 2.0 KiB, pulled 5.9 KiB" in describe({"graph": after})
    assert "told of" not in describe({"graph": before})


def test_news_come_when_servers_tell_more() -> None:
    model = model_of(cut())
    try:
        model.everything()
        assert not any(message["type"] == "graph" for message in model.news())
        events.emit(events.Exchanged(ENDPOINTS[0], 0, 0, 10, 20))
        model._servers_heard._throttle._next = 0.0  # it is time
        (graph,) = [message for message in model.news() if message["type"] == "graph"]
        assert graph["servers"]["told_pulled"].tolist() == [20, 0]
    finally:
        model.close()


def test_rows_are_not_known_before_a_step() -> None:
    def table() -> Any:
        ids = fluid.data("ids", [None, 1], "int64")
        rows = fluid.layers.embedding(ids, [50, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="t"))
        loss = fluid.layers.mean(rows)
        sgd().minimize(loss)
        return loss

    with job(table, True, servers=1) as ((trainer,), _):
        message = wb.ssa(trainer.main).messages["graph"]
    assert np.isnan([message["servers"][way] for way in WAYS]).all()
    assert "nan" not in describe({"graph": message})
    assert not any("nan" in text.get_text() for text in picture(message).axes[0].texts)


def test_a_servers_own_program_has_its_band() -> None:
    with job(lambda: dense_model(sgd), True, servers=1) as ((trainer,), _):
        (endpoint,) = wb.ssa(trainer.main).messages["graph"]["servers"]["name"]
        program, _startup = trainer.transpiler.get_pserver_programs(endpoint)
        message = wb.ssa(program).messages["graph"]
    assert message["servers"]["name"] == [endpoint] and Nodes.of(message).device == [1]


def test_other_programs_have_no_servers() -> None:
    main = Program()
    with fluid.program_guard(main, Program()), fluid.unique_name.guard():
        fluid.layers.fc(fluid.data("x", [None, 4]), 1)
    message = wb.ssa(main).messages["graph"]
    assert "servers" not in message and "toward" not in message
