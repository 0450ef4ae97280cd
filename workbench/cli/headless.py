"""A notebook's cells run one after another in a kernel of this Python, with Ctrl-C that stops the kernel."""

import asyncio
import atexit
import contextlib
import re
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.cli.failure import CommandError

PATIENCE_S = 5.0  # how long an interrupted cell may take to end before its kernel is ended
START_S = 60
LONGEST_MESSAGE = 20  # lines of an error that are shown
COLOURS = re.compile(r"\x1b\[[\d;]*m")
LONGEST_SOCKET_PATH = 100  # the system's limit is 108 bytes, and a channel number is appended


class CellFailed(Exception):
    """A cell raised, took too long, or took its kernel with it; the text names the cell and the error."""


class Interrupted(Exception):
    """Ctrl-C; the text names the cell that was running."""


class HeadlessRun:
    """One execution of a notebook, whose outputs are filled in place.

    Cells are counted as their prompts would be: code cells that are not empty, from 1.
    """

    def __init__(self, notebook: Any, folder: Path, timeout: float | None) -> None:
        self.notebook = notebook
        self.folder = folder
        self.timeout = timeout
        self.cells = [index for index, cell in enumerate(notebook.cells) if is_code(cell)]
        self.total = len(self.cells)
        self.on_cell: Callable[[int, str], None] = lambda number, first_line: None
        self._where = "before the first cell"
        self._interrupts = 0

    async def execute(self) -> None:
        """Runs every cell.

        Raises:
            CellFailed: a cell failed; the ones after it were not run.
            Interrupted: Ctrl-C or SIGTERM.
            CommandError: no kernel could be started.
        """
        clear(self.notebook)
        with tempfile.TemporaryDirectory(prefix="wb-") as sockets:
            client = make_client(self.notebook, self.timeout, Path(sockets))
            log = Path(sockets, "stderr")  # what the kernel process itself says; cells' output is not in it
            try:
                with log.open("wb") as stderr:
                    kernel = client.async_setup_kernel(cleanup_kc=True, cwd=str(self.folder), stderr=stderr)
                    async with kernel:
                        self._listen_for_signals(client)
                        await self._run_cells(client)
            except (RuntimeError, OSError, TimeoutError) as error:
                if self._interrupts:
                    raise Interrupted(f"stopped {self._where}") from None
                reason = last_line_of(log) or first_line_of(str(error))
                raise CommandError(f"the kernel did not start: {reason}") from None
            finally:
                atexit.unregister(client._cleanup_kernel)  # nbclient leaves it behind when a start fails

    async def _run_cells(self, client: Any) -> None:
        for number, index in enumerate(self.cells, start=1):
            await self._run_cell(client, number, index)

    async def _run_cell(self, client: Any, number: int, index: int) -> None:
        from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

        cell = self.notebook.cells[index]
        first_line = first_line_of(cell.source)
        self._where = f"in cell {number} of {self.total} ({first_line})"
        self.on_cell(number, first_line)
        try:
            await client.async_execute_cell(cell, index, execution_count=number)
        except CellExecutionError as error:
            self._fail(f"{error.ename}: {told(error)}")
        except CellTimeoutError:
            await client.km.shutdown_kernel(now=True)  # it is busy: asking it politely would only wait
            self._fail(f"it took longer than {self.timeout:g} s")
        except DeadKernelError:
            self._fail("the kernel died")
        if self._interrupts:  # the cell caught its KeyboardInterrupt: the wish to stop still holds
            raise Interrupted(f"stopped {self._where}")

    def _fail(self, reason: str) -> None:
        if self._interrupts:
            raise Interrupted(f"stopped {self._where}") from None
        raise CellFailed(f"failed {self._where}: {reason}") from None

    def _listen_for_signals(self, client: Any) -> None:
        """Ctrl-C interrupts the cell, then, if it goes on or Ctrl-C comes again, ends the kernel."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not the main thread
            loop.add_signal_handler(signal.SIGINT, self._interrupt, client)
            loop.add_signal_handler(signal.SIGTERM, self._end, client)

    def _interrupt(self, client: Any) -> None:
        if self._interrupts:
            self._end(client)
            return
        self._interrupts += 1
        self._pending = asyncio.ensure_future(client.km.interrupt_kernel())
        asyncio.get_running_loop().call_later(PATIENCE_S, self._end, client)

    def _end(self, client: Any) -> None:
        self._interrupts += 1
        self._pending = asyncio.ensure_future(client.km.shutdown_kernel(now=True))


def last_line_of(log: Path) -> str:
    """The last line of a log, where Python puts the error; "" if there is none."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def make_client(notebook: Any, timeout: float | None, sockets: Path) -> Any:
    """An nbclient whose kernel is this Python, whatever kernel the notebook names, reached without a port."""
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=this_python())
    address = str(sockets / "kernel")
    if len(address) < LONGEST_SOCKET_PATH:
        manager.transport, manager.ip = "ipc", address
    return NotebookClient(
        notebook,
        km=manager,
        timeout=timeout,
        startup_timeout=START_S,
        store_widget_state=False,
        coalesce_streams=True,  # as a page shows it, not a piece for each print
        record_timing=False,  # what is stored changes only where results do
    )


def this_python() -> Any:
    """A kernel spec manager that knows one kernel: the Python that runs this command."""
    from ipykernel.kernelspec import get_kernel_dict
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

    class ThisPython(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return KernelSpec(resource_dir="", **get_kernel_dict())

    return ThisPython()


def clear(notebook: Any) -> None:
    """Old outputs go, so that a partial copy never mixes two runs; so does stored widget state."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def is_code(cell: Any) -> bool:
    return cell.cell_type == "code" and bool(cell.source.strip())


def told(error: Any) -> str:
    """What a cell's error says, on as many lines as it takes, and the line of the cell it came from."""
    message = str(error.evalue).strip() or "(no message)"
    lines = message.splitlines()
    if len(lines) > LONGEST_MESSAGE:
        lines[LONGEST_MESSAGE:] = ["…"]
    raised = re.search(r"Cell In\[(\d+)\], line (\d+)", COLOURS.sub("", error.traceback))
    if raised is not None:
        lines.append(f"raised in cell In[{raised[1]}], line {raised[2]}")
    return "\n  ".join(line.strip() for line in lines)


def first_line_of(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0].strip() if lines else ""
