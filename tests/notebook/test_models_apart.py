"""Models of one notebook leave each other alone: run in turns, in any order, twice, after a restart."""

import asyncio
import tempfile
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.notebook.conftest import Notebook
from workbench.cli.headless import HeadlessRun

MODEL = """%%static_program {name} --seed 5
x = static.data("x", [None, 6])
t = static.data("t", [None, 1])
h = wb.nn.functional.dropout(static.nn.fc(x, 16, activation="relu"), 0.5)
loss = wb.mean((static.nn.fc(h, 1) - t) ** 2)
wb.optimizer.{optimizer}.minimize(loss)
{name}_loss = loss
"""
PREPARE = """
exe = static.Executor()
rows = np.random.RandomState(0).rand(40, 7).astype("float32")
def step(program, loss, k):
    batch = rows[k % 4 * 10:][:10]
    return float(exe.run(program, feed={"x": batch[:, :6], "t": batch[:, 6:]}, fetch_list=[loss])[0][0])
def learned(program):
    scope = static.global_scope()
    return {v.name: scope.find_var(v.name).get_tensor().numpy() for v in program.persistables()}
"""
A, B = MODEL.format(name="a", optimizer="Adam(0.01)"), MODEL.format(name="b", optimizer="Momentum(0.05, 0.9)")


def trained_alone(notebook: Notebook, cell: str, name: str) -> tuple[list[float], dict[str, np.ndarray]]:
    notebook.run(cell)
    losses = notebook.run(f"exe.run({name}_startup)\n[step({name}, {name}_loss, k) for k in range(6)]")
    return losses, notebook.run(f"learned({name})")


def assert_equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    assert [n for n in a if a[n].tobytes() != b[n].tobytes()] == []


def test_trained_in_turns_as_if_alone(notebook: Notebook) -> None:
    """Bit for bit, dropout and optimizer state included."""
    notebook.run(PREPARE)
    alone = [trained_alone(notebook, A, "a"), trained_alone(notebook, B, "b")]
    notebook.run(A)
    notebook.run(B)
    notebook.run("exe.run(a_startup)\nexe.run(b_startup)")
    turns = notebook.run("[(step(a, a_loss, k), step(b, b_loss, k)) for k in range(6)]")
    for i, name in enumerate("ab"):
        assert [pair[i] for pair in turns] == alone[i][0]
        assert_equal(notebook.run(f"learned({name})"), alone[i][1])
    assert not set(alone[0][1]) & set(alone[1][1])
    assert len(set(alone[0][0])) > 1, "nothing was learned"


def test_building_one_again_does_not_move_the_other(notebook: Notebook) -> None:
    notebook.run(PREPARE)
    for cell in (A, B, "exe.run(a_startup)\nexe.run(b_startup)\n[step(a, a_loss, k) for k in range(3)]"):
        notebook.run(cell)
    before = notebook.run("learned(a)")
    notebook.run(B)
    notebook.run("exe.run(b_startup)\n[step(b, b_loss, k) for k in range(3)]")
    assert_equal(notebook.run("learned(a)"), before)


def test_cells_run_out_of_order(notebook: Notebook) -> None:
    """The cell of `a` after that of `b`, the training cell twice, `b` built again in between."""
    notebook.run(PREPARE)
    losses, values = trained_alone(notebook, A, "a")
    for cell in (B, A, B, "exe.run(a_startup)", B, "exe.run(b_startup)"):
        notebook.run(cell)
    assert notebook.run("[step(a, a_loss, k) for k in range(6)]") == losses
    assert_equal(notebook.run("learned(a)"), values)
    assert notebook.run("exe.run(a_startup)\n[step(a, a_loss, k) for k in range(6)]") == losses


@pytest.mark.processes
def test_restart_and_run_all_twice_gives_the_same_outputs() -> None:
    """In a real kernel, as the front end's menu entry does it."""
    sources = [
        "%load_ext workbench",
        "import numpy as np\nimport workbench as wb\nfrom workbench import static",
        PREPARE,
        A,
        B,
        "exe.run(a_startup)\nexe.run(b_startup)",
        "[(step(a, a_loss, k), step(b, b_loss, k)) for k in range(4)]",
        "%%static_program c --from b\ntop = static.nn.fc(h, 2)\ntop.name",
        "%program",
        "%program c",
        "batches = [(rows[:, :6], rows[:, 6:])] * 5\n%train b batches --fetch b_loss --quiet",
    ]
    runs = [outputs_of(sources) for _ in range(2)]
    assert runs[0] == runs[1]
    assert sum(map(len, runs[0])) >= 7


def outputs_of(sources: list[str]) -> list[list[object]]:
    document = new_notebook(cells=[new_code_cell(source) for source in sources])
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(HeadlessRun(document, Path(folder), timeout=60).execute())
    nbformat.validate(document)
    return [[output.get("data", output) for output in cell.outputs] for cell in document.cells]
