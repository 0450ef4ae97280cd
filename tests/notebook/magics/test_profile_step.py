"""`%profile_step`: one real step, its slowest ops in a table."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from IPython.core.error import UsageError

import workbench as wb
from tests.notebook.conftest import Notebook
from tests.notebook.magics.test_extension import completed
from tests.notebook.magics.test_program import Text
from workbench.errors import InvalidArgument
from workbench.events import LISTENERS, OpRun, Step
from workbench.executors.profiling.profile_table import microseconds
from workbench.executors.profiling.sums import of_kind
from workbench.notebook.steps.profiling import REPEAT, StepProfile

NET = """%%static_program net --seed 2
x = static.data("x", [None, 4])
loss = wb.mean(static.nn.fc(x, 3, activation="tanh"))
wb.optimizer.SGD(0.1).minimize(loss)
"""
SETUP = """
static.Executor().run(net_startup)
exe = static.ParallelExecutor(False, loss.name, net)
feed = {"x": np.ones((6, 4), "float32")}
"""


@pytest.fixture
def net(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("CPU_NUM", "2")
    wb.enable_static()
    notebook.run(NET)
    notebook.run(SETUP)
    yield notebook
    wb.disable_static()


def weight() -> np.ndarray:
    return wb.static.global_scope().find_var("net.fc_0.w_0").get_tensor().numpy()


def test_it_applies_the_steps_it_says_and_returns_what_it_told(net: Notebook) -> None:
    start = weight()
    profile = net.run("found = %profile_step exe feed --warm-up 2 --repeat 3\nfound")
    assert isinstance(profile, StepProfile)
    once = weight()
    net.run("static.Executor().run(net_startup)\nexe = static.ParallelExecutor(False, loss.name, net)")
    np.testing.assert_array_equal(weight(), start)
    net.run("for _ in range(2 + 3 + 2): exe.run([], feed=feed)")
    np.testing.assert_array_equal(weight(), once)  # the same steps as without anybody listening
    assert profile.applied == 7 and profile.heading().endswith(
        "7 steps applied in all: these, 2 before them to warm up, 2 between them, not timed"
    )
    told = [event.step for event in profile.profile.events if isinstance(event, Step)]
    assert told == [2, 4, 6]  # none to warm up; before every look a step nobody looks at
    assert not np.array_equal(once, start)
    assert OpRun not in LISTENERS  # and nobody listens afterwards


def test_every_op_of_the_step_has_a_line_per_device(net: Notebook) -> None:
    profile = net.run("%profile_step exe feed")
    ran = {(name, line.place.index) for line in profile.ops for name in line.name.split("+")}  # joined in one call
    ops = [(n.type, place) for n in net["exe"].graph().nodes if not n.is_collective for place in n.places]
    assert ran <= set(ops) and len(ops) > 8
    assert set(ops) - ran <= {("fused_update", 1)}  # replicas that lie in one memory are updated once
    assert all(line.calls == REPEAT for line in profile.ops)
    assert [line.median for line in profile.ops] == sorted((line.median for line in profile.ops), reverse=True)
    assert sum(line.share for line in profile.ops) == pytest.approx(1)


def test_the_page_shows_the_slowest_first_where_they_were_built(net: Notebook) -> None:
    built = net.shell.execution_count - 2  # before the set-up cell
    net.run("%profile_step exe feed")
    profile = net.run("%profile_step exe feed -n 3")
    page = profile._repr_html_()
    words = Text(page).words
    assert words[0] == profile.heading() and words[0].startswith(f"{REPEAT} steps on cpu:0, cpu:1: ")
    assert "compiling" not in words[0]  # it was compiled before
    ops, types, layers = page.split("<table")[1:]
    assert [part.count("<tr") - 1 for part in (ops, types, layers)] == [
        3, min(8, len(profile.op_types)), min(8, len(profile.layers))
    ]  # fmt: skip
    assert all(line.name in types for line in profile.op_types[:8]) and "fc_0" in layers
    slowest = profile.ops[:3]
    positions = [page.find(f"{microseconds(line.median)}</td>") for line in slowest]
    assert -1 not in positions and positions == sorted(positions)
    assert f"cell In[{built}], line" in page
    assert f"… and {len(profile.ops) - 3} more ops" in words
    assert repr(profile) == f"{profile.heading()}\n\n{profile.profile.table(3, 'median')}"


def test_an_update_of_many_layers_is_shared_among_them(net: Notebook) -> None:
    net.run("""%%static_program deep
x = static.data("x", [None, 4])
loss = wb.mean(static.nn.fc(static.nn.fc(x, 7), 3, bias_attr=False))
wb.optimizer.Momentum(0.1).minimize(loss)
""")
    net.run("static.Executor().run(deep_startup)\nexe = static.ParallelExecutor(False, loss.name, deep)")
    profile = net.run("%profile_step exe feed")
    updates = [run for run in of_kind(profile.profile.events, OpRun) if run.op.type == "fused_update"]
    assert updates and all(dict(run.op.shares) == {"fc_0": 35 / 56, "fc_1": 21 / 56} for run in updates)
    rest = dict.fromkeys(("fc_0", "fc_1"), 0.0)
    for run in of_kind(profile.profile.events, OpRun):
        if run.op.layer in rest and run not in updates:
            rest[run.op.layer] += run.end - run.start
    whole = sum(run.end - run.start for run in updates)
    lines = {line.name: line.total for line in profile.layers}
    assert lines["fc_0"] == pytest.approx((rest["fc_0"] + whole * 35 / 56) / 1e9)
    assert lines["fc_1"] == pytest.approx((rest["fc_1"] + whole * 21 / 56) / 1e9)
    assert sum(lines.values()) == pytest.approx(sum(line.total for line in profile.ops))


def test_only_the_first_of_many_outputs_is_named(net: Notebook) -> None:
    profile = net.run("%profile_step exe feed")
    (update, *_) = [line for line in profile.ops if "fused_update" in line.name.split("+")]
    assert len(update.outputs) == 4  # weight and bias, of both devices
    assert f"{update.outputs[0]} +3" in profile._repr_html_()


def test_compiling_is_told_apart_from_the_step(net: Notebook) -> None:
    assert "ms for compiling" in net.run("%profile_step exe feed").heading()
    assert "ms for compiling" not in net.run("%profile_step exe feed --warm-up 0 --repeat 1").heading()


def test_the_timeline_can_be_exported(net: Notebook, tmp_path: Path) -> None:
    profile = net.run("%profile_step exe feed")
    profile.profile.export_chrome_trace(tmp_path / "step.json")
    assert json.loads((tmp_path / "step.json").read_text())["traceEvents"]


def test_compiled_programs_and_lists_of_feeds_work_too(net: Notebook) -> None:
    net.run("compiled = static.CompiledProgram(net).with_data_parallel(loss.name, places=static.cpu_places(2))")
    net.run("feeds = [feed, {'x': np.ones((1, 4), 'float32')}]")
    before = weight()
    profile = net.run("%profile_step compiled feeds")
    assert {str(line.place) for line in profile.ops} == {"cpu:0", "cpu:1"}
    assert not np.array_equal(weight(), before)


def test_a_program_is_run_by_what_the_message_says(net: Notebook) -> None:
    net.run("del exe")
    error = net.fail("%profile_step net feed")
    assert isinstance(error, UsageError) and "step = static.Executor().compiled(net) runs it" in str(error)
    net.run("step = static.Executor().compiled(net)")
    assert net.run("found = %profile_step step feed --repeat 2\nfound").heading().startswith("2 steps on cpu:0")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ex feed", "there is no ParallelExecutor or CompiledProgram called 'ex'. Did you mean 'exe'?"),
        ("net feed", "'net' is no ParallelExecutor or CompiledProgram, but of type Program. Here: 'exe'"),
        ("plain feed", r"'plain' is an Executor, .* step = plain\.compiled\(PROGRAM\) is one"),
        ("exe fed", "there is no feed .* called 'fed'. Did you mean 'feed'?"),
        ("exe np", "'np' is no feed .*, but of type module. Here: 'feed'"),
        ("exe feed -n 0", "-n takes a number of at least 1, got 0"),
        ("exe feed --repeat 0", "--repeat takes a number of at least 1, got 0"),
        ("exe feed --warm-up -1", "--warm-up takes a number of at least 0, got -1"),
        ("exe", "required: feed"),
        ("exe feed --nn 3", "unrecognized arguments: --nn 3"),
    ],
)
def test_a_wrong_line_is_explained_and_nothing_runs(net: Notebook, line: str, message: str) -> None:
    net.run("plain = static.Executor()")
    before = weight()
    error = net.fail(f"%profile_step {line}")
    assert isinstance(error, UsageError)
    assert re.search(message, str(error)), str(error)
    np.testing.assert_array_equal(weight(), before)


def test_a_failing_step_is_raised_here_and_nobody_listens_any_more(net: Notebook) -> None:
    net.run("wrong = {'x': np.ones((6, 5), 'float32')}")
    assert isinstance(net.fail("%profile_step exe wrong"), InvalidArgument)
    assert OpRun not in LISTENERS


def test_names_are_completed(net: Notebook) -> None:
    net.run("batches = [feed, feed]; numbers = [1]; nothing = {}; _hidden = feed")
    assert completed(net, "%profile_step ") == ["exe"]
    assert completed(net, "p = %profile_step exe ") == ["batches", "feed"]
    assert "-n" in completed(net, "%profile_step exe feed -")
