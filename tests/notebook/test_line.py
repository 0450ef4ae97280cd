"""What pages say while a cell runs, in a real kernel whose front end is this test.

Which thread hears them depends on the version of ipykernel; what they get done does not.
"""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

pytestmark = pytest.mark.processes
PATIENCE_S = 60

SETUP = """
import time
import numpy as np
import workbench as wb
from workbench import static

wb.enable_static()
net, net_startup = static.Program(), static.Program()
with static.program_guard(net, net_startup):
    x = static.data("x", [None, 3])
    loss = wb.mean(wb.square(static.nn.fc(x, 1)))
    wb.optimizer.SGD(0.01).minimize(loss)
batches = [{"x": np.ones((4, 3), np.float32)}] * 4
static.Executor().run(net_startup)
exe = static.CompiledProgram(net).with_data_parallel(loss.name, places=static.cpu_places(2))
runner = static.Executor()
order = []
dash = wb.dashboard(net)

def noted(run, name):
    real = getattr(run, name)
    def call(*arguments):
        order.append(name)
        return real(*arguments)
    setattr(run, name, call)

def step():
    runner.run(exe, feed=batches[0], fetch_list=[loss])
"""


class Notebook:
    """A kernel, the cells it is given, and the page of its dashboard."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client, self.replies = client, {}
        self.run(SETUP)
        self.page = self.value("dash._page.comm.comm_id")

    def begin(self, cell: str) -> str:
        """Have a cell run; returns the number of the request."""
        return self.client.execute(cell)

    def end(self, request: str) -> dict[str, Any]:
        """Wait for the end of a cell; returns the content of its reply."""
        while request not in self.replies:
            reply = self.client.get_shell_msg(timeout=PATIENCE_S)
            self.replies[reply["parent_header"]["msg_id"]] = reply["content"]
        return self.replies[request]

    def run(self, cell: str) -> None:
        reply = self.end(self.begin(cell))
        assert reply["status"] == "ok", "\n".join(reply["traceback"])

    def value(self, expression: str) -> Any:
        request = self.client.execute("", user_expressions={"found": expression})
        result = self.end(request)["user_expressions"]["found"]
        assert result["status"] == "ok", result
        return ast.literal_eval(result["data"]["text/plain"])

    def say(self, content: dict[str, Any]) -> None:
        """What the page says."""
        data = {"method": "custom", "content": content}
        message = self.client.session.msg("comm_msg", {"comm_id": self.page, "data": data})
        self.client.shell_channel.send(message)

    def click(self, name: str) -> None:
        self.say({"type": "command", "name": name, "values": {}})


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("kernel")
    manager = KernelManager()
    environment = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "WORKBENCH_RUNS": str(folder / "runs.sqlite")}
    manager.start_kernel(env=environment, cwd=str(folder))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        yield Notebook(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


BEGIN = """
order.clear()
run = dash.start(steps=10**9, data='batches')
for name in ('pause', 'stop'): noted(run, name)
"""


@pytest.fixture
def training(notebook: Notebook) -> Iterator[None]:
    """A run in the background, which notes the buttons that reach it, and which is over when the test is."""
    notebook.run(BEGIN)
    yield
    notebook.run(f"run.stop(); run.wait({PATIENCE_S})")


@pytest.mark.usefixtures("training")
def test_a_page_is_heard_while_a_cell_waits_for_the_run(notebook: Notebook) -> None:
    waiting = notebook.begin(f"run.wait({PATIENCE_S})")
    time.sleep(0.5)
    notebook.click("pause")
    notebook.click("stop")
    assert notebook.end(waiting)["status"] == "ok"  # it would be a TimeoutError
    assert notebook.value("(order, str(run.state))") == (["pause", "stop"], "stopped")


LOOP = f"""
get_ipython().run_cell("1")  # a cell within the cell
end = time.monotonic() + {PATIENCE_S}
while not order and time.monotonic() < end:
    step()
run.stop()
before = list(order)
"""


@pytest.mark.usefixtures("training")
@pytest.mark.parametrize("stepped", ["step()", "runner.run(net, feed=batches[0])"])
def test_a_page_is_heard_between_the_steps_of_a_loop(notebook: Notebook, stepped: str) -> None:
    looping = notebook.begin(LOOP.replace("step()", stepped))
    time.sleep(0.5)
    notebook.click("pause")
    assert notebook.end(looping)["status"] == "ok"
    assert notebook.value("before[:1]") == ["pause"]


@pytest.mark.usefixtures("training")
def test_what_is_no_pages_message_waits_in_its_order(notebook: Notebook) -> None:
    looping = notebook.begin(LOOP)
    time.sleep(0.5)
    first = notebook.begin("order.append('first')")
    told = notebook.client.session.msg("comm_info_request", {})
    notebook.client.shell_channel.send(told)
    second = notebook.begin("order.append('second'); 1 / 0")
    notebook.click("pause")
    third = notebook.begin("order.append('third')")
    assert notebook.end(looping)["status"] == "ok"
    assert notebook.end(first)["status"] == "ok" and notebook.end(second)["ename"] == "ZeroDivisionError"
    assert notebook.end(third)["status"] == "aborted"  # it had been sent when the second failed
    assert list(notebook.replies)[-4:] == [first, told["header"]["msg_id"], second, third]
    assert notebook.value("order") == ["pause", "stop", "first", "second"]
    assert notebook.page in notebook.replies[told["header"]["msg_id"]]["comms"]


def test_a_click_that_comes_late_is_not_done(notebook: Notebook) -> None:
    notebook.run("import time; now = time.monotonic(); count = len(dash.runs)")
    sent = notebook.value("now") - 60
    for steps, since in ((2, 1.0), (3, 59.9)):
        click = {"type": "command", "name": "run", "values": {"data": "batches", "steps": steps}, "id": str(steps)}
        notebook.say({**click, "sent": sent, "since": since, "valid": 5})
    end = time.monotonic() + PATIENCE_S
    while notebook.value("len(dash.runs) == count or not dash.run.finished") and time.monotonic() < end:
        time.sleep(0.05)
    assert notebook.value("(len(dash.runs) - count, dash.run.step)") == (1, 3)


def test_a_file_that_the_page_may_not_save_is_written_by_the_kernel(notebook: Notebook) -> None:
    for text in (b"<svg/>", b"<svg></svg>"):
        data = {"method": "custom", "content": {"type": "keep", "name": "graph.svg"}}
        message = notebook.client.session.msg("comm_msg", {"comm_id": notebook.page, "data": data})
        notebook.client.session.send(notebook.client.shell_channel.socket, message, buffers=[text])
    folder, end = Path(notebook.value("__import__('os').getcwd()")), time.monotonic() + PATIENCE_S
    while not (folder / "graph-1.svg").is_file() and time.monotonic() < end:
        time.sleep(0.05)
    assert [path.read_bytes() for path in sorted(folder.glob("graph*.svg"))] == [b"<svg></svg>", b"<svg/>"]
