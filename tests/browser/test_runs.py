"""The table of runs in JupyterLab, used as a person uses it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser.kernel import Kernel
from tests.browser.lab_server import PATIENCE_S, LabServer, NotebookPage, opened, wait_for
from workbench.experiments import runs
from workbench.experiments.records.runs_file import RunProgress, RunsFile

pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(420)]
PICTURES = Path(os.environ["WORKBENCH_PICTURES"]) if os.environ.get("WORKBENCH_PICTURES") else None
EVIL = "<img src=x onerror=window.hacked=1>"


def record(file: RunsFile) -> None:
    """Six runs of a sweep and three others, in two notebooks; one diverged. One ended in NaN, one has no loss."""
    grid = [(rate, size) for rate in (0.001, 0.01, 0.1) for size in (32, 128)]
    for k, (rate, size) in enumerate([*grid, (0.01, 64), (0.01, 64), (0.01, 64)]):
        settings = {"learning_rate": rate, "batch_size": size, "notebook": "ab"[k % 2] + ".ipynb", "seed": 7}
        settings |= {"sweep": "abc", "trial": k} if k < 6 else {EVIL: k}
        number = file.begin(EVIL if k == 0 else f"run {k}", 100, settings)
        loss = 2.3 * np.exp(-np.arange(100) * rate * 3) * (1e30 if k == 5 else 1) ** (np.arange(100) / 100)
        file.add(number, RunProgress("done", 100, 1.0 + k, ended=1e9), [("loss", 0, loss.tolist())])
    for name, losses in (("nan", [1.0, np.nan]), ("empty", [])):
        number = file.begin(name, 100, {"learning_rate": 0.01, "notebook": "c.ipynb", "seed": 7})
        file.add(number, RunProgress("done", 2, 1.0, ended=1e9), [("loss", 0, losses)] if losses else [])


def cells(file: Path) -> dict[str, Any]:
    code = ["%load_ext workbench\nimport workbench as wb", f"found = wb.runs({str(file)!r})\nfound"]
    code_cells = [
        {"cell_type": "code", "id": f"c{k}", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for k, source in enumerate(code)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": code_cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def page(browser: Any, lab_server: LabServer, tmp_path: Path) -> Iterator[NotebookPage]:
    file = RunsFile(tmp_path / "runs.sqlite")
    record(file)
    (lab_server.folder / "table.ipynb").write_text(json.dumps(cells(file.path)))
    with opened(browser, lab_server, "table.ipynb", 1300, 1500) as shown:
        shown.run_all(PATIENCE_S)
        assert shown.errors() == []
        shown.page.locator(".dt-container").wait_for()
        yield shown


def picture(page: NotebookPage, name: str) -> None:
    if PICTURES is not None:
        page.page.wait_for_timeout(1500)  # for what still moves
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.page.screenshot(path=str(PICTURES / f"{name}.png"))


def file_of(server: LabServer) -> str:
    code = json.loads((server.folder / "table.ipynb").read_text())["cells"][1]["source"]
    return str("".join(code).split("'")[1])


def test_runs_are_sorted_filtered_grouped_selected_and_compared(page: NotebookPage, lab_server: LabServer) -> None:
    shown = page.page
    rows, heads = shown.locator(".dt-container tbody tr"), shown.locator(".dt-container thead th:visible")

    def column(name: str) -> list[str]:
        at = [head.strip() for head in heads.all_inner_texts()].index(name)
        return [row[at] for row in rows.evaluate_all("all => all.map(r => [...r.cells].map(c => c.innerText))")]

    picture(page, "runs")
    assert rows.count() == 11 and column("run") == [str(n) for n in range(11, 0, -1)]
    assert "seed" not in heads.all_inner_texts() and EVIL[:20] in column("name")[-1]
    heads.filter(has_text="learning_rate").locator(".dt-column-title").click()
    wait_for(lambda: column("learning_rate") == sorted(column("learning_rate"), key=float), PATIENCE_S, "the order")
    for sign in (1, -1):
        heads.filter(has_text="loss").locator(".dt-column-title").click()
        losses = sorted(run.last["loss"] * sign for run in runs(file_of(lab_server))[2:])
        expected = [f"{loss * sign:.4g}" for loss in losses] + ["nan", ""]
        wait_for(lambda expected=expected: column("loss") == expected, PATIENCE_S, "what has no loss, last")  # type: ignore[misc]
    shown.get_by_role("button", name="columns").click()
    shown.locator(".dt-button-collection").get_by_text("seed", exact=True).click()
    shown.keyboard.press("Escape")
    wait_for(lambda: column("seed") == ["7"] * 11, PATIENCE_S, "the column")

    shown.get_by_role("searchbox").first.fill("a.ipynb")
    wait_for(lambda: rows.count() == 5, PATIENCE_S, "the filter")
    shown.get_by_role("searchbox").first.fill("")

    for name in ("run 3", "run 5", "run 7"):
        rows.filter(has_text=name).first.locator("td").first.click()
    below = shown.locator("svg[aria-label^='loss of']")
    below.wait_for()
    wait_for(lambda: below.locator("path.line").count() == 3, PATIENCE_S, "three curves")
    assert below.locator("path.away").count() == 1  # the one that diverged
    plot = shown.locator("svg[aria-label^='loss by']")
    assert plot.locator("polyline").count() == 9
    picture(page, "compared")

    shown.get_by_label("group by").select_option("sweep")
    wait_for(lambda: shown.locator("tr.dtrg-group").count() == 2, PATIENCE_S, "groups")
    assert shown.locator("tr.selected").count() == 3 and below.locator("path.line").count() == 3
    shown.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    picture(page, "grouped")
    shown.evaluate("jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")

    kernel = Kernel(lab_server.connection_file(page.name))
    try:
        assert kernel.value("[run.name for run in found.selected]") == ["run 7", "run 5", "run 3"]
    finally:
        kernel.stop()
    heads.filter(has_text="name").locator(".dtcc-button").first.click()  # its filter lists the names
    shown.locator(".dtcc-dropdown").get_by_text("run 3").first.wait_for()
    picture(page, "filter")
    shown.keyboard.press("Escape")
    shown.get_by_label("compare").fill("999 abc")
    shown.get_by_label("compare").press("Enter")
    shown.get_by_text("no number of a run in this table: '999', 'abc'").wait_for()
    assert shown.evaluate("window.hacked") is None  # neither a name nor a column brings markup of its own
    kinds = [set(output["data"]) for output in page.cells()[1]["outputs"]]
    assert kinds == [{"application/vnd.jupyter.widget-view+json", "text/plain"}, {"text/html", "text/plain"}]
