"""Rules every test shares: what a marker needs, and the words it is skipped with when that is missing."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from functools import cache
from importlib.util import find_spec

import pytest
from hypothesis import settings

import workbench as wb
from workbench.config import override
from workbench.framework.values import random
from workbench.runtime.native import library

# A busy machine is not a failure; in CI the examples are the same every time, elsewhere they explore.
settings.register_profile("workbench", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("workbench")

# Dynamic mode is chosen, so that a name of 1.x, which one test uses first, does not make it static for all others.
wb.disable_static()

# A shell that starts the tests in the background has them ignore Ctrl-C, which many of them press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Runs are recorded far from the user's own, in a file that goes with this process.
RUNS = tempfile.mkdtemp(prefix="workbench-runs-")
os.environ["WORKBENCH_RUNS"] = os.path.join(RUNS, "runs.sqlite")
atexit.register(shutil.rmtree, RUNS, ignore_errors=True)

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_sessionstart() -> None:
    """A process that begins while kernels are compiled does without them to its end: here all have them, or none."""
    library.kernels()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: among tens of thousands of tests nobody need look for garbage, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pages of JupyterLab and jobs of several processes stand on clocks and ports that are not ours alone: what fails
    there is tried once more, and the summary says so."""
    shared = [item for item in items if item.get_closest_marker("browser") or item.get_closest_marker("processes")]
    for item in shared:
        item.add_marker(pytest.mark.flaky(reruns=1))
    if hasattr(config, "workerinput"):  # these files and notebooks take longest: no worker is left with one at the end
        long = {item.path for item in shared} | {item.path for item in items if item.path.suffix == ".ipynb"}
        items.sort(key=lambda item: item.path not in long)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser") and (missing := missing_for_browser()):
        pytest.skip(missing)
    if item.get_closest_marker("gpu") and (missing := missing_for_gpu()):
        pytest.skip(missing)


def pytest_runtest_teardown() -> None:
    """A seed that a test has chosen ends with it."""
    if any(random.position()):
        wb.seed(0)


@pytest.fixture
def calls() -> Iterator[None]:
    """Steps run as NumPy calls."""
    with override(cpu_tape=False):
        yield


@pytest.fixture
def tape() -> Iterator[None]:
    """Steps run in compiled kernels."""
    with override(cpu_tape=True):
        if library.kernels() is None:
            pytest.skip(f"no compiled kernels: {library.why_not()}")
        yield


@pytest.fixture
def reference() -> Iterator[None]:
    """Programs run op by op, by the interpreter that defines what is correct."""
    with override(executor="reference"):
        yield


@pytest.fixture(params=["compiled", "reference"])
def either(request: pytest.FixtureRequest) -> Iterator[str]:
    """An Executor on the engine, then the interpreter."""
    with override(executor=request.param):
        yield request.param


@pytest.fixture(params=["calls", "tape"])
def lowering(request: pytest.FixtureRequest) -> str:
    """Both, one after the other."""
    request.getfixturevalue(request.param)
    return request.param


def missing_for_browser() -> str | None:
    if find_spec("playwright") is None:
        return "browser tests need playwright: pip install playwright"
    if not any(shutil.which(name) for name in CHROMIUM_NAMES):
        return "browser tests need Chromium: apt-get install chromium"
    return None


@cache
def missing_for_gpu() -> str | None:
    if find_spec("cupy") is None:
        return "GPU tests need CuPy: pip install 'cupy-cuda12x[ctk]'"
    import cupy

    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"GPU tests need a device: {error}"
    return None if count else "GPU tests need a device: CuPy counts none"
