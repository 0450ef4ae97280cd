"""What `%train` shows in a notebook while it runs."""

import math
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.manager import KernelManager

from tests.notebook.test_program import Text
from workbench.cli.headless import this_python
from workbench.experiments import Run
from workbench.notebook import live
from workbench.notebook.live import LiveView, curve_html, thinned, watch


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
    made: list[Shown] = []

    def display(view: LiveView, display_id: bool) -> Shown:
        made.append(Shown(view))
        return made[-1]

    monkeypatch.setattr(live, "display", display)
    monkeypatch.setattr(live, "REDRAW_S", 0.01)
    return made


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

    run = watch(Run("net", work, None).start())
    assert str(run.state) == "stopped"
    assert "(stopped)" in shown[0].pictures[-1]


@given(st.lists(st.floats(-1e6, 1e6), max_size=2000), st.integers(1, 200))
def test_thinning_keeps_the_mean_and_the_order_of_size(values: list[float], points: int) -> None:
    made = thinned(values, points)
    assert len(made) == min(len(values), points)
    if values:
        assert min(values) - 1e-3 <= min(made) and max(made) <= max(values) + 1e-3
    if len(values) % points == 0 and values:
        assert math.isclose(sum(made) / len(made), sum(values) / len(values), rel_tol=1e-6, abs_tol=1e-3)


@pytest.mark.parametrize("values", [[], [math.nan], [1.0], [1.0, 1.0], [0.0, math.nan, 2.0], list(range(5000))])
def test_a_curve_stays_in_its_frame(values: list[float]) -> None:
    page = curve_html("a<b", values)
    if not [v for v in values if v == v]:
        assert page == ""
        return
    assert "a&lt;b" in page
    numbers = page.split('points="')[1].split('"')[0].split()
    for x, y in (map(float, point.split(",")) for point in numbers):
        assert 0 <= x <= live.WIDTH and 0 <= y <= live.HEIGHT


@pytest.mark.processes
def test_the_interrupt_button_of_a_real_kernel_stops_training() -> None:
    """The cell ends without an error, the run says where it stopped, and the kernel goes on."""
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
        assert run("run = %train net forever --fetch loss", manager.interrupt_kernel) == "ok"
        last = [m["content"]["data"]["text/plain"] for m in outputs if m["msg_type"] == "update_display_data"][-1]
        assert "(stopped)" in last
        assert run("assert run.state == 'stopped' and run.step == len(run.history['loss']) > 0") == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


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
