"""The sample notebooks as they are stored: executed, in order, light, and without traces of a machine."""

import re
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parent.parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MACHINE = re.compile(r"(?<![\w.])/(home|root|tmp|work|usr|var|Users|opt)/\w|site-packages|ipykernel_\d")
LARGEST = 400_000  # bytes


def test_there_are_some() -> None:
    assert "01_quickstart.ipynb" in [path.name for path in NOTEBOOKS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_is_fit_to_be_read(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    assert path.stat().st_size < LARGEST
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "not run from top to bottom"
    for cell in cells:
        text = str(cell.outputs)
        assert not MACHINE.search(text), f"{MACHINE.search(text)} below: {cell.source}"
        assert "image/png" in text or len(text) < 40_000
        failed = any(output.output_type == "error" for output in cell.outputs)
        assert not failed or "raises-exception" in cell.metadata.get("tags", [])
    checked = [cell for cell in cells if "nbval-check-output" in cell.metadata.get("tags", [])]
    assert checked, "no cell is compared with its stored output"
