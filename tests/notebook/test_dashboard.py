"""`wb.dashboard()` and its magics in a notebook: by name, by value, by method, and without a page."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from IPython.core.error import UsageError

import workbench as wb
from tests.browser.lab_server import wait_for
from tests.notebook.conftest import Notebook
from tests.notebook.magics.test_extension import completed
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.notebook.dashboard.page import dashboard as module
from workbench.notebook.dashboard.page import still_pictures
from workbench.notebook.dashboard.page.displayed import show_in

NET = """%%static_program net
x, y = static.data("x", [None, 3]), static.data("y", [None, 1])
loss = wb.mean(wb.square(static.nn.fc(x, 1) - y))
wb.optimizer.SGD(0.1).minimize(loss)
"""
SETUP = """
rows = np.arange(15, dtype=np.float32).reshape(5, 3)
batch = {"x": rows, "y": np.ones((5, 1), np.float32)}
batches = [batch] * 4
static.Executor().run(net_startup)
exe = static.CompiledProgram(net).with_data_parallel(loss.name, places=static.cpu_places(2))
"""
SIGNATURE = b"\x89PNG"
PAGE = {"application/vnd.jupyter.widget-view+json", "text/plain"}


@pytest.fixture
def net(notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs.sqlite"))
    monkeypatch.chdir(tmp_path)
    notebook.run(NET)
    notebook.run(SETUP)
    yield notebook
    for dashboard in list(module._made.values()):
        for run in dashboard.runs:
            run.stop()
            run.wait(30)
        dashboard.close()


def step(net: Notebook) -> None:
    net.run("static.Executor().run(exe, feed=batch, fetch_list=[loss])")


def test_steps_that_came_to_rest_before_it_was_made_are_no_trouble(
    net: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hurried(module.Publisher):
        """Its threads are there before whoever makes it has it."""

        def __init__(self, model: Any, send: Any, at_turn: Any) -> None:
            at_turn()
            super().__init__(model, send, at_turn)

    monkeypatch.setattr(module, "Publisher", Hurried)
    step(net)
    assert "1 step" in repr(net.run("wb.dashboard(exe)"))


def test_a_target_has_one_dashboard_and_the_last_one_is_found_again(net: Notebook) -> None:
    for left in list(module._latest):  # by other tests
        left.close()
    first = net.run("%dashboard exe")
    assert first is net.run("wb.dashboard(exe)") is net.run("%dashboard") is net.run("wb.dashboard()")
    other = net.run("%dashboard net")
    assert other is not first and net.run("wb.dashboard()") is other
    run = other.start(steps=1_000_000, data="batches")
    net.run("%dashboard exe")
    assert net.run("wb.dashboard()") is other  # it is the one that runs
    run.stop()
    run.wait(30)
    assert net.run("wb.dashboard()") is first
    other.close()
    other.close()
    assert net.run("wb.dashboard()") is first
    first.close()
    with pytest.raises(PreconditionNotMet, match="there is no dashboard yet"):
        wb.dashboard()


def test_what_it_shows_is_said_in_words_too(net: Notebook) -> None:
    dash = net.run("%dashboard exe")
    assert "exe (executor), AllReduce on 2 devices: cpu:0, cpu:1" in repr(dash)
    step(net)
    text = repr(dash)
    assert "cpu:0: x rows 0–1 float32[2, 3]" in text and "cpu:1: x rows 2–4 float32[3, 3]" in text
    assert "fc_0.w_0@GRAD" in text and "loss" in text


@pytest.fixture
def front_end(net: Notebook, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a notebook's page is told to show: bundle, metadata, and whether in the place of what was shown."""
    monkeypatch.setattr(net.shell, "kernel", SimpleNamespace(), raising=False)
    told: list[Any] = []

    def publish(data: Any, metadata: Any = None, **more: Any) -> None:
        told.append((data, metadata, more.get("update", False)))

    monkeypatch.setattr(net.shell.display_pub, "publish", publish)
    return told


def display(net: Notebook, target: str) -> None:
    """As the last value of a cell does."""
    assert net.shell.display_formatter.format(net[target]) == ({}, {})


def test_it_is_a_page_with_a_picture_and_words_beside_it(net: Notebook, front_end: list[Any]) -> None:
    net.run("dash = wb.dashboard(exe)")
    display(net, "dash")
    (page, _, _), (still, _, _) = front_end
    assert set(page) == PAGE
    assert "model_id" in page["application/vnd.jupyter.widget-view+json"] and "\n" not in page["text/plain"]
    assert "exe (executor), AllReduce on 2 devices" in still["text/plain"]
    picture = re.search('src="data:image/png;base64,([^"]+)"', still["text/html"])
    assert picture is not None and b64decode(picture[1]).startswith(SIGNATURE)


def test_what_stands_beside_a_page_is_hidden_by_the_page_alone(net: Notebook, front_end: list[Any]) -> None:
    net.run("dash, other = wb.dashboard(exe), wb.dashboard(net)")
    display(net, "dash")
    named = re.search(r'class="wb-still (\S+)"', front_end[1][0]["text/html"])
    assert named is not None
    assert f".{named[1]}," in net["dash"]._page._hides and named[1] not in net["other"]._page._hides
    assert "_hides" in net["dash"]._page.get_state()


def test_a_still_picture_says_what_goes_on_and_how_to_get_the_page_back(net: Notebook, front_end: list[Any]) -> None:
    net.run("run = wb.train(net, batches, steps=9, name='mine', paused=True, record=False, progress=False)")
    run = net["run"]
    try:
        net.run("dash = wb.dashboard(run)")
        display(net, "dash")
        said = front_end[-1][0]["text/plain"].splitlines()
        assert "'mine' was paused then, after step 0 of 9" in said[1]
        assert f"In[{net.shell.displayhook.prompt_count}]" in said[2]
        run.resume()
        run.wait(30)
        wait_for(lambda: "'mine' has ended" in front_end[-1][0]["text/plain"], 30, "the picture to be told of the end")
        assert front_end[-1][2]  # in the place of the one before
        assert "9 of 9 steps" in front_end[-1][0]["text/html"] and "data:image/png" in front_end[-1][0]["text/html"]
        assert front_end[-1][0]["text/plain"].splitlines()[2] == said[2]  # of the cell that shows it
    finally:
        run.stop()
        run.wait(30)


def test_a_still_picture_saved_while_a_run_goes_on_says_so(net: Notebook, front_end: list[Any]) -> None:
    def still() -> str:
        return str(front_end[-1][0]["text/plain"])

    net.run("dash = wb.dashboard(net)")
    display(net, "dash")
    assert "state: no run" in still() and "The run" not in still() and "run that" not in still()
    assert f"In[{net.shell.displayhook.prompt_count}]" in still()
    run = net["dash"].start(steps=10**9)
    try:
        wait_for(lambda: "or later then, goes on" in still() and "state: running" in still(), 60, "word of the run")
        assert front_end[-1][2] and "state: no run" not in still()
        run.pause()
        wait_for(lambda: f"was paused then, after step {run.step:,} of" in still(), 60, "word of the pause")
    finally:
        run.stop()
        run.wait(60)
    wait_for(lambda: "has ended" in still(), 60, "word of the end")


def test_what_is_left_of_a_page_is_all_of_its_panels_as_they_ended(net: Notebook, front_end: list[Any]) -> None:
    def pictures() -> dict[str, str]:
        html = front_end[-1][0]["text/html"]
        return dict(re.findall(r'<img alt="([^"]+)" src="data:image/png;base64,([^"]+)"', html))

    net.run("dash = wb.dashboard(net)")
    display(net, "dash")
    assert list(pictures()) == ["the graph of a step"]  # nothing else has happened
    before = pictures()["the graph of a step"]
    for strategy in ("AllReduce", "Reduce"):
        net["dash"].start(steps=40, data="batches", devices=2, reduce_strategy=strategy).wait(60)
        ended = f"net (program), {strategy} on 2 devices: cpu:0, cpu:1\nstate: done"
        wait_for(lambda: ended in front_end[-1][0]["text/plain"], 60, "the pictures of the end")  # noqa: B023
        shown = pictures()
        assert len(shown) == 5 and {"what each device was fed", "a step on the clock"} <= shown.keys()
        for alt, panel in (("the graph of a step", "graph"), ("what was recorded, over the steps", "curves")):
            assert b64decode(shown[alt]) == net["dash"].panel(panel)._repr_png_()
        assert strategy in net["dash"].messages()["graph"]["strategy"] and shown["the graph of a step"] != before
        before = shown["the graph of a step"]


def test_while_steps_go_on_only_another_graph_is_drawn(net: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    dash = net.run("wb.dashboard(exe)")
    step(net)
    messages = dash.messages()
    drawn: list[str] = []
    image = still_pictures._image
    monkeypatch.setattr(still_pictures, "_image", lambda panel, of: (drawn.append(panel), image(panel, of))[1])
    pictures = still_pictures.StillPictures()
    resting = pictures.html(messages, goes_on=False)
    assert resting.count("<img") == len(drawn) == 5
    assert pictures.html(messages, goes_on=True) == resting and len(drawn) == 5
    another = {**messages, "graph": {**messages["graph"], "id": 99}}
    assert pictures.html(another, goes_on=True).count("<img") == 1 and drawn[5:] == ["graph"]


def test_colab_is_told_where_it_finds_the_widget(
    net: Notebook, front_end: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    colab: Any = ModuleType("google.colab.output")
    colab.enable_custom_widget_manager = lambda: None
    colab._widgets = SimpleNamespace(_installed_url="https://widgets.example")
    monkeypatch.setitem(sys.modules, "google.colab.output", colab)
    net.run("dash = wb.dashboard(exe)")
    display(net, "dash")
    told = front_end[0][1]["application/vnd.jupyter.widget-view+json"]
    assert told == {"colab": {"custom_widget_manager": {"url": "https://widgets.example"}}}


def test_feeds_and_scopes_are_pictures_and_texts(net: Notebook, tmp_path: Path) -> None:
    net.run("%dashboard exe")
    step(net)
    for line, panel in (("%feeds exe", "feeds"), ("wb.scopes(exe)", "scopes"), ("%scopes", "scopes")):
        view = net.run(line)
        assert view.panel == panel and view._repr_png_().startswith(SIGNATURE) and "cpu:1" in repr(view)
    view.save(tmp_path / "scopes.svg")
    assert "cpu:1" in "".join(ElementTree.parse(tmp_path / "scopes.svg").getroot().itertext())
    with pytest.raises(InvalidArgument, match=r"\.svg or \.png"):
        view.save(tmp_path / "scopes.pdf")


def test_an_empty_panel_says_what_to_do(net: Notebook) -> None:
    with pytest.raises(PreconditionNotMet, match="nothing to show under 'timeline' yet: run a step"):
        net.run("wb.dashboard(exe)").panel("timeline").figure()
    with pytest.raises(InvalidArgument, match="no panel 'memory'; it has 'curves', 'feeds'"):
        net.run("wb.dashboard(exe)").panel("memory")


def test_the_ssa_graph_of_a_program_for_any_devices(net: Notebook) -> None:
    view = net.run("%ssa net --devices 3 --reduce")
    kinds = [node.type for node in view.graph.nodes]
    assert view.graph.devices == 3 and "reduce" in kinds and "all_reduce" not in kinds
    assert "all_reduce" in "".join(n.type for n in net.run("%ssa net").graph.nodes)
    assert net.run("wb.ssa(exe)").graph.devices == 2 and view._repr_png_().startswith(SIGNATURE)
    with pytest.raises(InvalidType, match="ssa takes a Program"):
        wb.ssa(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="at least 1, got 0"):
        wb.ssa(net["net"], devices=0)


def test_drop_scopes_drops(net: Notebook) -> None:
    net.run("%dashboard exe")
    assert isinstance(net.fail("%drop_scopes"), PreconditionNotMet)
    step(net)
    net.run("%drop_scopes exe")
    assert net["exe"].inspection.last is None
    assert "scopes dropped: 1 time" in repr(net.run("wb.dashboard()"))


def test_every_button_has_a_method(net: Notebook, tmp_path: Path) -> None:
    dash = net.run("wb.dashboard(net)")
    dash.set(steps=50, devices=2)
    run = dash.start(steps=40, data="batches").wait(30)
    assert (run.step, dash.run) == (40, run) and dash.runs == [run]
    dash.set(steps=100_000)
    second = dash.start(reduce_strategy="Reduce")
    dash.pause()
    assert second.advance(1, timeout=30)
    held = second.step
    dash.step()
    assert second.advance(1, timeout=30) and second.step in (held + 1, held + 2)
    dash.save_checkpoint()
    assert list(tmp_path.glob("net-step-*.checkpoint"))
    dash.resume()
    dash.stop()
    assert second.wait(30).state == "stopped" and dash.runs == [run, second]
    with pytest.raises(PreconditionNotMet, match="stop is not possible now: run 'net' is stopped"):
        dash.stop()
    with pytest.raises(InvalidArgument, match="no setting 'stepz'"):
        dash.set(stepz=3)


def test_a_step_goes_out_as_a_trace(net: Notebook, tmp_path: Path) -> None:
    dash = net.run("wb.dashboard(exe)")
    with pytest.raises(PreconditionNotMet, match="no step has been looked at"):
        dash.export_chrome_trace(tmp_path / "step.json")
    step(net)
    dash.messages()
    dash.export_chrome_trace(tmp_path / "step.json")
    assert any(event.get("name") == "mul" for event in json.loads((tmp_path / "step.json").read_text())["traceEvents"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%dashboard nett", "'nett': there is no such name. Did you mean 'net'?"),
        ("%scopes rows", "'rows': it is of type ndarray."),
        ("%ssa net --devices 0", "--devices takes a number of at least 1, got 0"),
        ("%ssa net --devices 5000", "--devices takes a number of at most 4,096, got 5000"),
        ("%ssa", "the following arguments are required: name"),
    ],
)
def test_mistakes_are_one_line(net: Notebook, line: str, said: str) -> None:
    error = net.fail(line)
    assert isinstance(error, UsageError) and said in str(error)


def test_completion_offers_what_can_be_shown(net: Notebook) -> None:
    assert {"net", "net_startup", "exe"} <= set(completed(net, "%dashboard "))
    assert "rows" not in completed(net, "%dashboard ")
    assert set(completed(net, "%ssa net --")) >= {"--devices", "--reduce"}
    assert "net" not in completed(net, "%ssa net --devices ")


def test_only_a_front_end_gets_dashboards_as_values(net: Notebook) -> None:
    shows = net.shell.display_formatter.ipython_display_formatter
    assert not shows(net["exe"])  # this shell is a terminal's
    assert net.run("%dashboard exe") is not None and "exe (executor)" in net.printed and net.shown == []

    class Kernel:
        saved_sigint_handler: Any = None

    kernel = net.shell.kernel = Kernel()
    try:
        show_in(net.shell)
        net.run("exe")
        assert [set(bundle) for bundle in net.shown] == [PAGE, {"text/html", "text/plain"}]
        net.run("run = wb.train(net, batches, steps=1, record=False, progress=False).wait(30)\nrun")
        assert PAGE in map(set, net.shown)
        net.run("%train net batches --steps 1 --quiet")
        assert net.shown == []  # it was shown while it went on; its value is one line
        run = net.run("wb.dashboard(net)").start(steps=1_000_000, data="batches")
        kernel.saved_sigint_handler()  # what an interrupt between cells calls
        assert run.wait(30).state == "stopped"
        net.run("%unload_ext workbench")
        assert not shows(net["exe"])
    finally:
        del net.shell.kernel
        net.run("%load_ext workbench")


def test_other_things_are_refused_and_scripts_have_dashboards_too() -> None:
    with pytest.raises(InvalidType, match="dashboard takes a ParallelExecutor, a CompiledProgram, a Program or a Run"):
        wb.dashboard("net")  # type: ignore[arg-type]
    with pytest.raises(InvalidType, match=r"got an Executor; it runs many programs: executor\.compiled\(program\)"):
        wb.dashboard(wb.static.Executor())  # type: ignore[arg-type]
