"""`workbench run`: what it leaves behind, what it says, how it ends."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from typer.testing import CliRunner, Result

from workbench.cli.app import app

pytestmark = pytest.mark.processes

WIDGET = (
    "import ipywidgets\n"
    "class Dial(ipywidgets.IntSlider):\n"
    "    def _repr_mimebundle_(self, **kwargs):\n"
    "        data = super()._repr_mimebundle_(**kwargs)\n"
    "        return {**data, 'image/svg+xml': '<svg id=\"still\"></svg>'}\n"
    "Dial()"
)


def written(path: Path, *sources: str, **metadata: object) -> Path:
    cells = [new_markdown_cell("# Title"), *[new_code_cell(source) for source in sources]]
    nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
    return path


def run(folder: Path, *arguments: object) -> Result:
    """The command inside this process: its imports cost more than the notebooks of these tests."""
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, ["run", *map(str, arguments)])


def run_apart(folder: Path, *arguments: object, **options: str) -> subprocess.CompletedProcess[str]:
    """The command as a shell starts it."""
    return subprocess.run(
        [sys.executable, "-m", "workbench", "run", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **options},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


def executed(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def test_every_cell_runs_and_both_copies_are_named(tmp_path: Path) -> None:
    source = written(tmp_path / "my notes.ipynb", "x = 20", "", "print(x + 22)")
    before = source.read_bytes()
    result = run(tmp_path, "my notes.ipynb")
    assert result.exit_code == 0, result.stderr
    assert [re.sub(r"\d:\d\d", "T", line) for line in lines(result.stderr)] == [
        "cell 1 of 2  T  x = 20",
        "cell 2 of 2  T  print(x + 22)",
    ]
    verdict, notebook, page = lines(result.stdout)
    assert re.fullmatch(r"my notes.ipynb: 2 of 2 cells ran \(\d+:\d\d\)", verdict)
    assert notebook.strip() == "workbench-run/my notes.executed.ipynb"
    cells = executed(tmp_path / notebook.strip()).cells
    assert [cell.get("execution_count") for cell in cells] == [None, 1, None, 2]
    assert cells[3].outputs[0].text == "42\n"
    assert "42" in (tmp_path / page.strip()).read_text()
    assert source.read_bytes() == before


def test_a_failing_cell_is_named_and_the_partial_copy_is_kept(tmp_path: Path) -> None:
    written(tmp_path / "bad.ipynb", "print('first')", "# divide\n1 / 0", "print('never')")
    result = run_apart(tmp_path, "bad.ipynb", "--out", "results/deep")
    assert result.returncode == 1
    assert "failed in cell 2 of 3 (# divide): ZeroDivisionError: division by zero" in lines(result.stderr)[-2]
    assert lines(result.stderr)[-1].strip() == "raised in cell In[2], line 2"
    cells = executed(tmp_path / "results/deep/bad.executed.ipynb").cells
    assert cells[1].outputs[0].text == "first\n"
    assert cells[2].outputs[0].ename == "ZeroDivisionError"
    assert cells[3].outputs == []
    assert "ZeroDivisionError" in (tmp_path / "results/deep/bad.executed.html").read_text()


def test_outputs_of_an_earlier_run_are_not_mixed_in(tmp_path: Path) -> None:
    path = written(tmp_path / "old.ipynb", "1 / 0", "print('never')")
    notebook = executed(path)
    notebook.cells[2].outputs = [nbformat.v4.new_output("stream", text="from last week\n")]
    notebook.cells[2].execution_count = 9
    nbformat.write(notebook, path)
    run(tmp_path, "old.ipynb")
    cell = executed(tmp_path / "workbench-run/old.executed.ipynb").cells[2]
    assert (cell.outputs, cell.execution_count) == ([], None)


def test_what_is_kept_is_the_same_whenever_it_is_run(tmp_path: Path) -> None:
    written(tmp_path / "prints.ipynb", "for k in range(20):\n    print(k, flush=True)")
    run(tmp_path, "prints.ipynb")
    cell = executed(tmp_path / "workbench-run/prints.executed.ipynb").cells[-1]
    assert [output.text for output in cell.outputs] == ["".join(f"{k}\n" for k in range(20))]
    assert cell.metadata == {}


def test_a_cell_that_may_raise_does_not_fail_the_run(tmp_path: Path) -> None:
    path = written(tmp_path / "raises.ipynb", "1 / 0", "print('after')")
    notebook = executed(path)
    notebook.cells[1].metadata.tags = ["raises-exception"]
    nbformat.write(notebook, path)
    assert run(tmp_path, "raises.ipynb").exit_code == 0


def test_widget_state_is_left_out_so_that_the_picture_beside_it_shows(tmp_path: Path) -> None:
    written(tmp_path / "widget.ipynb", WIDGET, widgets={"application/vnd.jupyter.widget-state+json": {}})
    result = run(tmp_path, "widget.ipynb")
    assert result.exit_code == 0, result.stderr
    assert "widgets" not in executed(tmp_path / "workbench-run/widget.executed.ipynb").metadata
    page = (tmp_path / "workbench-run/widget.executed.html").read_text()
    assert b64encode(b'<svg id="still"></svg>').decode() in page
    assert "widget-state" not in page


def test_a_cell_over_its_time_is_named(tmp_path: Path) -> None:
    written(tmp_path / "slow.ipynb", "import time\ntime.sleep(60)")
    started = time.monotonic()
    result = run(tmp_path, "slow.ipynb", "--timeout", "1")
    assert result.exit_code == 1
    assert "failed in cell 1 of 1 (import time): it took longer than 1 s" in result.stderr
    assert time.monotonic() - started < 30
    assert (tmp_path / "workbench-run/slow.executed.html").is_file()


def test_a_kernel_that_dies_is_told(tmp_path: Path) -> None:
    written(tmp_path / "dies.ipynb", "import os\nos._exit(3)")
    result = run(tmp_path, "dies.ipynb")
    assert result.exit_code == 1
    assert "failed in cell 1 of 1 (import os): the kernel died" in result.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "no such notebook: x.ipynb"),
        (b"hello", "x.ipynb is not a notebook: Notebook does not appear to be JSON: 'hello'"),
        (b'{"a": 1}', "x.ipynb is not a notebook: "),
        (b"[1]", "x.ipynb is not a notebook: its JSON has another shape"),
        (b"\xff\xfe\x00\x80", "x.ipynb is not a notebook: "),
    ],
)
def test_what_is_no_notebook_gets_one_line(tmp_path: Path, content: bytes | None, expected: str) -> None:
    if content is not None:
        (tmp_path / "x.ipynb").write_bytes(content)
    result = run(tmp_path, "x.ipynb")
    assert (result.exit_code, result.stdout, len(lines(result.stderr))) == (2, "", 1)
    assert result.stderr.startswith(f"workbench run: {expected}")


def test_a_notebook_of_another_language_gets_one_line(tmp_path: Path) -> None:
    spec = {"name": "ir", "language": "R", "display_name": "R"}
    written(tmp_path / "r.ipynb", "1", kernelspec=spec)
    result = run(tmp_path, "r.ipynb")
    assert (result.exit_code, lines(result.stderr)) == (
        2,
        ["workbench run: r.ipynb is written for R; there is no kernel here but this Python's"],
    )


def test_a_kernel_that_cannot_start_gets_one_line(tmp_path: Path) -> None:
    written(tmp_path / "x.ipynb", "1")
    (tmp_path / "ipykernel_launcher.py").write_text("raise ImportError('no zmq here')")
    result = run_apart(tmp_path, "x.ipynb", PYTHONPATH=str(tmp_path))
    assert result.returncode == 2
    assert lines(result.stderr)[-1] == "workbench run: the kernel did not start: ImportError: no zmq here"
    assert "Traceback" not in result.stderr


def test_a_notebook_that_names_a_missing_kernel_runs_in_this_python(tmp_path: Path) -> None:
    spec = {"name": "conda-env-of-a-colleague", "language": "python", "display_name": "x"}
    written(tmp_path / "x.ipynb", "import sys\nprint(sys.executable)", kernelspec=spec)
    assert run(tmp_path, "x.ipynb").exit_code == 0
    cell = executed(tmp_path / "workbench-run/x.executed.ipynb").cells[1]
    assert cell.outputs[0].text.strip() == sys.executable


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="uses /proc as a folder nobody can write to")
def test_a_folder_that_cannot_be_made_is_told_before_a_cell_runs(tmp_path: Path) -> None:
    written(tmp_path / "x.ipynb", "open('ran', 'w')")
    result = run(tmp_path, "x.ipynb", "--out", "/proc/none")
    assert (result.exit_code, len(lines(result.stderr))) == (2, 1)
    assert "cannot make the folder /proc/none" in result.stderr
    assert not (tmp_path / "ran").exists()


def interrupted(tmp_path: Path, source: str, presses: int) -> subprocess.CompletedProcess[str]:
    """Runs a one-cell notebook and presses Ctrl-C once the cell has begun."""
    written(tmp_path / "x.ipynb", f"open('began', 'w').write(str(__import__('os').getpid()))\n{source}")
    command = [sys.executable, "-m", "workbench", "run", "x.ipynb"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "began").exists() or not (tmp_path / "began").read_text():
        assert time.monotonic() < deadline, "the cell did not begin"
        time.sleep(0.05)
    for _ in range(presses):
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def kernel_is_gone(tmp_path: Path) -> bool:
    pid = int((tmp_path / "began").read_text())
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("source", "presses"),
    [
        ("import time\nprint('so far', flush=True)\ntime.sleep(60)", 1),
        ("import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass", 2),
    ],
    ids=["once", "twice for a cell that ignores it"],
)
def test_ctrl_c_stops_the_kernel_and_keeps_the_partial_copy(tmp_path: Path, source: str, presses: int) -> None:
    result = interrupted(tmp_path, source, presses)
    assert result.returncode == 130, result.stderr
    assert "x.ipynb: stopped in cell 1 of 1" in result.stderr
    assert "Traceback" not in result.stderr
    assert kernel_is_gone(tmp_path)
    copy = executed(tmp_path / "workbench-run/x.executed.ipynb")
    if presses == 1:
        assert copy.cells[1].outputs[0].text == "so far\n"


def test_a_terminal_sees_one_rewritten_line(tmp_path: Path) -> None:
    written(tmp_path / "x.ipynb", "1", "2")
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        command = [sys.executable, "-m", "workbench", "run", "x.ipynb"]
        result = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, timeout=120, check=False)
        os.close(theirs)
        shown = terminal.read(4096).decode()
    assert result.returncode == 0
    shown = re.sub(r"[^\r\n]*\(src/\w+\.cpp:\d+\)\r?\n", "", shown)  # libzmq may report a closed socket as it leaves
    assert "\n" not in shown
    assert re.findall(r"cell \d of \d", shown) == ["cell 1 of 2", "cell 2 of 2"]
    assert shown.endswith("\r\x1b[K")
