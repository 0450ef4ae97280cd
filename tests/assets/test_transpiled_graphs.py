"""The graph panel in a browser: what parameter servers are sent, and what comes from them, is drawn apart."""

from collections.abc import Iterator
from typing import Any

import pytest

import workbench as wb
from tests.assets.conftest import packed
from workbench import fluid

pytestmark = pytest.mark.browser


@pytest.fixture
def transpiled() -> Iterator[fluid.Program]:
    """A trainer's program: a weight and a bias, one server."""
    main, startup = fluid.Program(), fluid.Program()
    wb.enable_static()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
        transpiler = fluid.DistributeTranspiler()
        transpiler.transpile(0, main, "127.0.0.1:6174", 2, True, startup)
        yield transpiler.get_trainer_program(wait_port=False)
    wb.disable_static()


def test_server_ops_have_a_lane_and_a_legend(dashboard: Any, transpiled: fluid.Program) -> None:
    dashboard.receive(packed(wb.ssa(transpiled).messages["graph"]))
    panel = dashboard.page.locator(".wb-graph")
    items = panel.locator(".wb-g-item.wb-g-server")
    assert items.count() == 6
    below = max(box["y"] for box in (one.bounding_box() for one in panel.locator(".wb-g-item.wb-g-backward").all()))
    assert all(one.bounding_box()["y"] > below for one in items.all())
    colors = {one.evaluate("box => getComputedStyle(box).stroke") for one in items.locator(".wb-g-box").all()}
    assert colors == {"rgb(176, 125, 0)"}
    assert "server 6" in panel.locator(".wb-g-legend").inner_text()
    assert "server" in panel.locator(".wb-g-rail").text_content()
