"""What a saved notebook shows when its kernel is gone: JupyterLab has no widgets then, only what stands beside them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.browser.lab_server import PATIENCE_S, LabServer, NotebookPage, opened, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(300)]
SETUP = """%load_ext workbench
import numpy as np
import workbench as wb
from workbench import static
wb.enable_static()"""
NET = """%%static_program net
x = static.data("x", [None, 4])
loss = wb.mean(static.nn.fc(x, 2))
wb.optimizer.SGD(0.1).minimize(loss)"""
TRAIN = """batches = [{"x": np.ones((4, 4), "float32")}] * 3
%train net batches --epochs 1 --quiet
_ = wb.train(net, batches, steps=5, record=False).wait(60)"""
AGAIN = "run = wb.dashboard().start(steps=7).wait(60)"
COMPARE = "wb.compare(*wb.runs()[:2])"
CELLS = [SETUP, NET, TRAIN, "wb.dashboard(net)", "wb.runs()", AGAIN, COMPARE]
DEAD = "model not found"


@pytest.fixture(scope="module")
def saved(browser: Any, lab_server: LabServer) -> Path:
    """A notebook with a dashboard and a table of runs, run and saved with nothing but Save; its kernel is gone."""
    path = lab_server.folder / "reopened.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=list(map(new_code_cell, CELLS)), metadata={"kernelspec": kernel}), path)
    with opened(browser, lab_server, path.name) as page:
        page.run_all(PATIENCE_S)
        assert page.errors() == []
        live = page.page.locator(".wb-dashboard, .wb-runs")
        wait_for(lambda: live.count() == 2, PATIENCE_S, "both widgets")
        assert visible(page, ".wb-still") == 0 and visible(page, ".wb-dashboard, .wb-runs") == 2
        ended = "JSON.stringify(notebookPanel().content.model.toJSON()).includes('has ended; the pictures')"
        wait_for(lambda: page.page.evaluate(ended), PATIENCE_S, "the still picture to be told of the run")
        page.page.evaluate("jupyterapp.commands.execute('docmanager:save')")
        wait_for(lambda: "wb-still" in path.read_text(), PATIENCE_S, "the notebook to be saved")
    return path


def visible(page: NotebookPage, selector: str) -> int:
    return page.page.locator(selector).filter(visible=True).count()


def test_the_still_picture_and_the_table_stand_where_the_widgets_were(
    browser: Any, lab_server: LabServer, saved: Path
) -> None:
    with opened(browser, lab_server, saved.name) as page:
        wait_for(lambda: page.page.get_by_text(DEAD).count() == 2, PATIENCE_S, "JupyterLab to give the widgets up")
        assert page.page.get_by_text(DEAD).filter(visible=True).count() == 0
        assert visible(page, ".wb-still img") == 5 and visible(page, ".wb-still table") == 1
        widths = page.page.locator(".wb-still img").evaluate_all("images => images.map((each) => each.naturalWidth)")
        assert min(widths) > 200
        assert "net: 5/5" in page.page.locator(".jp-OutputArea", has=page.page.locator("progress")).inner_text()
        said = page.page.locator(".wb-still").first.inner_text()
        assert "In[4]" in said and "state: done, 7 of 7 steps" in said
        page.run_all(PATIENCE_S)  # the page takes its place again
        wait_for(lambda: visible(page, ".wb-dashboard, .wb-runs") == 2, PATIENCE_S, "both widgets")
        wait_for(lambda: visible(page, ".wb-still") == 0, PATIENCE_S, "the still picture to go")


def test_a_notebook_that_is_not_trusted_shows_them_too(
    open_notebook: Callable[[Path], AbstractContextManager[NotebookPage]], saved: Path, tmp_path: Path
) -> None:
    notebook = json.loads(saved.read_text())
    notebook["cells"][0]["source"] = "# written by somebody else"
    path = tmp_path / "another's.ipynb"
    path.write_text(json.dumps(notebook))
    with open_notebook(path) as page:
        wait_for(lambda: visible(page, ".jp-OutputArea img") > 1, PATIENCE_S, "the still picture and the charts")
        sizes = "images => images.map(image => image.naturalWidth)"
        assert 420 in page.page.locator(".jp-OutputArea img").evaluate_all(sizes)
        last = page.page.locator(".jp-OutputArea", has_text="last loss").last
        last.scroll_into_view_if_needed()  # what is out of sight is drawn later
        wait_for(lambda: "loss" in last.inner_text(), PATIENCE_S, "the comparison")
        compared = last.inner_text()
        assert "loss" in compared and "step\n" not in compared
        assert page.page.locator(".jp-OutputArea table").last.get_by_text("net").count() > 0
        assert page.page.get_by_text(DEAD).count() == 0
