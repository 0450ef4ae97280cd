"""What `%train` shows in a notebook while it runs."""

import math
import re
import threading
import time
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from jupyter_client.manager import KernelManager

import workbench as wb
from tests.experiments.pictures import SVG, drawings
from tests.notebook.magics.test_program import Text
from workbench import static
from workbench.cli.headless import this_python
from workbench.experiments import Run
from workbench.notebook.steps import live
from workbench.notebook.steps.live import LiveView, watch
from workbench.runtime.storage.scope import Scope, scope_guard


class Shown:
    """Stands for a display handle; keeps every picture."""

    def __init__(self, view: LiveView, on_update: Any = lambda: None) -> None:
        self.pictures, self.on_update = [repr(view)], on_update

    def update(self, view: LiveView) -> None:
        self.pictures.append(repr(view))
        Text(view._repr_html_())
        self.on_update()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Shown]:
    views: list[Shown] = []

    def display(view: LiveView, display_id: bool) -> Shown:
        views.append(Shown(view))
        return views[-1]

    monkeypatch.setattr(live, "display", display)
    monkeypatch.setattr(live, "REDRAW_S", 0.01)
    return views


def first(shown: list[Shown]) -> Shown:
    """The handle, once the run is shown."""
    while not shown:
        time.sleep(0.001)
    return shown[0]


def test_it_is_redrawn_until_the_end(shown: list[Shown]) -> None:
    gate = threading.Event()

    def work(run: Run) -> Iterator[dict[str, float]]:
        for k in range(4):
            if k == 2:
                first(shown).on_update = gate.set  # goes on once a picture of two steps was drawn
                assert gate.wait(10)
            yield {"loss": 1.0 / (k + 1)}

    run = watch(Run("net", work, 4).start())
    assert str(run.state) == "done"
    pictures = shown[0].pictures
    assert any(p.startswith("net: 2 of 4 steps") and "loss 0.5" in p for p in pictures)
    assert pictures[-1].startswith("net: 4 of 4 steps") and pictures[-1].endswith("loss 0.25")


def test_a_failure_is_raised_after_a_last_picture(shown: list[Shown]) -> None:
    def work(run: Run) -> Iterator[dict[str, float]]:
        yield {"loss": 2.0}
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        watch(Run("net", work, 4).start())
    assert "(failed), loss 2" in shown[0].pictures[-1]


def test_an_interrupt_while_drawing_stops_the_run(shown: list[Shown]) -> None:
    def interrupt() -> None:
        shown[0].on_update = lambda: None
        raise KeyboardInterrupt

    def work(run: Run) -> Iterator[dict[str, float]]:
        first(shown).on_update = interrupt
        while True:
            yield {"loss": 1.0}

    run = Run("net", work, None).start()
    with pytest.raises(KeyboardInterrupt):
        watch(run)
    assert str(run.state) == "stopped"
    assert "(stopped)" in shown[0].pictures[-1]


def test_curves_have_axes_and_keep_every_step_in_its_place() -> None:
    run = Run("net", lambda run: iter(()), None)
    view = LiveView(run)
    run.history["loss"] = [1.0, 2.0]
    assert "<svg" in view._repr_html_()  # while it goes on
    run.start().wait(30)
    view = LiveView(run)
    run.history["loss"] = [2.0] * 100 + [math.nan] * 100 + [1.0] * 200
    for _ in range(2):  # a redraw takes over what is new, once
        (chart,) = drawings(view._repr_html_())
        drawn = [text.text for text in chart.iter(f"{SVG}text")]
        assert "step" in drawn and {"1", "2"} <= set(drawn)
        (line,) = [path for path in chart.iter(f"{SVG}path") if path.get("class") == "line"]
        parts = [[tuple(map(float, p.split())) for p in re.split("L", part)] for part in pieces(line)]
        assert len(parts) == 2  # NaN is a gap
        middle = (parts[0][0][0] + parts[1][-1][0]) / 2
        assert parts[0][-1][0] < middle == pytest.approx(parts[1][0][0], abs=3)
    run.history["loss"] += [math.inf, 0.5]
    assert "loss 0.5" in view._repr_html_() and "(0.5 … 2)" in view._repr_html_()


def test_values_of_validation_data_stand_where_they_were_taken() -> None:
    run = Run("net", lambda run: iter(()), None).start().wait(30)
    run.history.update(loss=[1.0] * 40, val_loss=[2.0, 1.0])
    run.validated, run.val_labels = [20, 40], ("val_loss",)
    (chart,) = drawings(LiveView(run)._repr_html_())  # one frame for both
    lines = [path for path in chart.iter(f"{SVG}path") if path.get("class") == "line"]
    assert len(lines) == 2
    ends = [[float(point.split()[0]) for point in pieces(line)[0].split("L")] for line in lines]
    assert ends[1][-1] == ends[0][-1] and ends[0][0] < ends[1][0] == pytest.approx(sum(ends[0][19:21]) / 2, abs=8)
    run.val_labels, run.history["val_acc"] = ("val_loss", "val_acc"), [0.5, 0.75]
    assert "val_acc 0.75" in LiveView(run)._repr_html_()  # nothing of training beside it: a frame of its own


def test_the_first_nan_is_told_at_once_with_its_step_and_op() -> None:
    """While the run goes on, in the picture itself, and the bar is red."""
    wb.enable_static()
    try:
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            loss = wb.mean(wb.log(static.nn.fc(static.data("x", [None, 1]), 1, weight_attr=_one(), bias_attr=False)))
            wb.optimizer.SGD(0.001).minimize(loss)
        batches = [{"x": np.full((2, 1), 1.0 if k < 3 else -1.0, np.float32)} for k in range(9)]
        seen: list[str] = []

        def look(run: Run) -> None:
            if run.step == 6:
                seen.extend((repr(LiveView(run)), LiveView(run)._repr_html_()))

        with scope_guard(Scope()):
            run = wb.train(main, batches, epochs=2, on_step=look, progress=False, record=False, name="net").wait(30)
    finally:
        wb.disable_static()
    text, page = seen
    assert "NaN from step 4: op 'log' on cpu:0 makes it" in text and "epoch 1 of 2" in text
    ElementTree.fromstring(f"<div>{page}</div>")
    assert 'role="alert"' in page and "accent-color" in page and "NaN from step 4" in page
    assert run.step == 18 and "accent-color" not in LiveView(Run("fine", lambda run: iter(()), 3))._repr_html_()


def _one() -> Any:
    return wb.ParamAttr(initializer=wb.nn.initializer.Constant(1.0))


def test_how_fast_it_is_and_how_long_it_takes_is_counted_from_where_it_went_on() -> None:
    run = Run("net", lambda run: iter(()), 100, epochs=4)
    run.begin_at(60, 2, {}, [], ())
    run.step, run.seconds = 70, 5.0
    assert (run.steps_per_second, run.seconds_left) == (2.0, 15.0)
    assert LiveView(run).progress() == "net: 70 of 100 steps, epoch 3 of 4, 5.0 s, 2 steps/s, 15 s left (ready)"
    assert [live.duration(s) for s in (3.25, 59.6, 200, 7500)] == ["3.2 s", "1 min 0 s", "3 min 20 s", "2 h 05 min"]


def pieces(line: ElementTree.Element) -> list[str]:
    """The unbroken parts of a path: `x yLx y…`."""
    return [part.replace("h0", "") for part in str(line.get("d")).split("M") if part]


@pytest.mark.parametrize(
    "values", [[math.nan], [1.0], [1.0, 1.0], [0.0, math.nan, 2.0], [1.0, 1e300], list(range(5000))]
)
def test_any_values_have_a_picture(values: list[float]) -> None:
    run = Run("a<b", lambda run: iter(()), None)
    run.history["a<b"] = values
    page = LiveView(run)._repr_html_()
    assert "a&lt;b" in page
    tree = ElementTree.fromstring(f"<div>{page}</div>")
    for line in (path for path in tree.iter("path") if path.get("class") == "line"):
        for x, y in (map(float, point.split()) for part in pieces(line) for point in part.split("L")):
            assert 0 <= x <= live.WIDTH and -live.HEIGHT <= y <= 2 * live.HEIGHT


@pytest.mark.processes
def test_the_interrupt_button_of_a_real_kernel_stops_training() -> None:
    """The cell ends with the interrupt, so that what follows does not run; the run says where it stopped."""
    manager = KernelManager(kernel_spec_manager=this_python())
    manager.start_kernel()
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        outputs: list[dict[str, Any]] = []

        def run(source: str, *then: Any) -> str:
            pending = list(then)

            def keep(message: dict[str, Any]) -> None:
                outputs.append(message)
                if pending and message["msg_type"] == "update_display_data":
                    pending.pop()()  # once: a later interrupt would meet a kernel at rest

            reply = client.execute_interactive(source, timeout=60, output_hook=keep)
            return str(reply["content"]["status"])

        assert run(ENDLESS) == "ok"
        assert run("%train kept = net forever --fetch loss", manager.interrupt_kernel) == "error"
        last = [m["content"]["data"]["text/plain"] for m in outputs if m["msg_type"] == "update_display_data"][-1]
        assert "(stopped)" in last
        assert run(LOOK) == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


LOOK = """
run = max(wb.runs(), key=lambda run: run.number)
assert run.state == "stopped" and run.step == len(run.scalars["loss"]) > 0
assert kept.step == run.step and str(kept.state) == "stopped" and kept.scope is static.global_scope()
"""
ENDLESS = """
%load_ext workbench
import itertools
import numpy as np
import workbench as wb
from workbench import static
batch = {"x": np.ones((5, 4), "float32")}
class Forever:
    def __iter__(self):
        return itertools.repeat(batch)
forever = Forever()
get_ipython().run_cell_magic("static_program", "net", '''
loss = wb.mean(static.nn.fc(static.data("x", [None, 4]), 1) ** 2)
wb.optimizer.SGD(0.001).minimize(loss)
''')
"""
