"""The layers: a file imports from its own row and from rows below, never above.

`ROWS` is the one place where the table is written down, `ROOMS` goes on with it inside packages; a package that is in
no row fails the test, and so does a sub-package that has no place.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.imports import ROOT, imports, module_name, sources

ROWS: dict[int, tuple[str, ...]] = {
    0: ("framework", "config", "errors", "events", "between", "version", "assets", "facade"),
    1: ("ops",),
    2: ("autodiff", "builders", "optimizer"),
    3: ("graph", "runtime", "cuda"),
    4: ("executors", "dygraph"),
    5: ("checkpoint", "data", "layers", "metrics"),
    6: ("parallel", "jit", "precision"),
    7: ("experiments", "hapi"),
    8: ("notebook",),
    9: ("magics", "cli"),
    10: (
        "",
        "__main__",
        "static",
        "nn",
        "base",
        "distributed",
        "fluid",
        "io",
        "metric",
        "amp",
        "callbacks",
        "device",
        "autograd",
        "regularizer",
        "profiler",
        "utils",
        "linalg",
    ),
}
STRANGERS = {frozenset({"graph", "runtime"}), frozenset({"graph", "cuda"}), frozenset({"executors", "dygraph"})}
ROW_OF = {package: row for row, packages in ROWS.items() for package in packages}

ROOMS: dict[str, tuple[str, ...]] = {
    "framework": ("", "values", "expr", "rows", "op", "program", "text"),
    "framework.program": ("", "reading"),
    "ops": ("", "tensor", "math", "index", "linalg", "random", "conv", "nn", "loss", "update", "flow", "distributed"),
    "ops.math": ("", "reductions", "products"),
    "ops.index": ("", "order", "composed"),
    "ops.conv": ("", "convolutions", "pools", "images"),
    "base": ("", "dygraph"),
    "distributed": ("", "fleet"),
    "data": ("", "fluid"),
    "fluid": ("", "contrib", "transpiler", "incubate"),
    "builders": ("initializers", "flow", "", "nn", "fluid"),
    "optimizer": ("lr", "", "rules"),
    "cuda": ("", "simulated", "kernels", "devices"),
    "cuda.simulated": ("memory", "ptx", ""),
    "graph": ("", "passes"),
    "dygraph": ("", "tape", "tensor", "dispatch", "autograd"),
    "layers": ("", "thin", "weighted", "recurrent", "attention", "reparameter"),
    "runtime": ("", "storage", "words", "kernels", "native", "comm", "servers"),
    "runtime.comm": ("", "mpi"),
    "runtime.comm.mpi": ("memory", "exchange", ""),
    "runtime.kernels": ("", "rows", "tensor", "math", "random", "conv", "loss", "index", "tape"),
    "executors": (
        "",
        "reference",
        "feeding",
        "planning",
        "workers",
        "replicas",
        "lowering",
        "fetching",
        "running",
        "inspection",
        "profiling",
        "api",
    ),
    "executors.running": ("", "watching", "step", "finding", "engine"),
    "executors.lowering.tape": ("", "math", "tensor", "index", "random", "conv", "nn", "loss", "update", "flow"),
    "hapi": ("", "callbacks", "training"),
    "jit": ("values", "branches", ""),
    "parallel": ("", "launch", "groups", "data_parallel", "cluster", "roles", "transpiler", "servers", "fleet"),
    "parallel.servers": ("transports", "serving", "asking", ""),
    "experiments": ("", "records", "training", "tables", "charts", "launch", "bench"),
    "experiments.training": ("loops", "layers", "saving", ""),
    "notebook": ("", "telling", "programs", "steps", "runs", "figures", "dashboard"),
    "notebook.figures": ("", "graphs", "panels"),
    "notebook.dashboard": ("", "watching", "model", "page"),
    "notebook.dashboard.watching": ("", "ranks"),
}
"""The sub-packages of a package, the lowest first; "" are the files that lie in its own folder, but for its door."""

FRONT_ENDS = {"IPython", "ipywidgets", "anywidget", "matplotlib", "ipykernel", "jupyter_client", "jupyterlab"}
LOWEST_FRONT_END_ROW = 8
CUPY_FILES = {"workbench/cuda/cupy_driver.py"}


def package_of(module: str) -> str:
    """`workbench.ops.math.arithmetic` is in package `ops`, the facade `workbench` in package ``""``."""
    return [*module.split("."), ""][1]


def room_of(name: str, package: str) -> str | None:
    """`workbench.framework.op.record` is in room `op` of `framework`, `workbench.framework.names` in room ``""``."""
    inside = f"{name}.".removeprefix(f"workbench.{package}.")
    if inside == f"{name}.":
        return None
    first = inside.partition(".")[0]
    return first if first in ROOMS[package] else ""


def violations(path: Path, root: Path = ROOT) -> Iterator[str]:
    module = module_name(path, root)
    package = package_of(module)
    where = path.relative_to(root).as_posix()
    if package not in ROW_OF:
        yield f"{where}: package {package!r} is in no row of the table"
        return
    for folder in path.relative_to(root).parents[:-3]:
        around = folder.parent.as_posix().removeprefix("workbench/").replace("/", ".")
        if folder.name not in ROOMS.get(around, ()) and (around in ROOMS or "." not in around):
            yield f"{where}: {folder.name} has no place among the sub-packages of {around}"
            return
    for line, name, _ in imports(path, module):
        reason = objection(package, where, name) or room_objection(module, name)
        if reason:
            yield f"{where}:{line}: imports {name}: {reason}"


def objection(package: str, where: str, name: str) -> str | None:
    top = name.split(".")[0]
    if top in {"magics", "assets"}:
        return f"import workbench.{top}, or the module exists twice"
    if top == "cupy" and where not in CUPY_FILES:
        return f"only {' and '.join(sorted(CUPY_FILES))} import CuPy"
    if top in FRONT_ENDS and ROW_OF[package] < LOWEST_FRONT_END_ROW:
        return f"only rows {LOWEST_FRONT_END_ROW} and above import {top}"
    return layer_objection(package, name) if top == "workbench" else None


def room_objection(module: str, name: str) -> str | None:
    for package, order in ROOMS.items():
        own, target = room_of(module, package), room_of(name, package)
        if own is None or target is None or module == f"workbench.{package}":
            continue  # the door of a package may open on all its rooms
        if order.index(target) > order.index(own):
            return f"{package}.{target} is above {f'{package}.{own}' if own else f'the files of {package}'}"
    return None


def layer_objection(package: str, name: str) -> str | None:
    target = package_of(name)
    if target not in ROW_OF:
        target = ""  # `from workbench import x` with x no package: a name of the facade
    if target == package:
        return None
    if ROW_OF[target] > ROW_OF[package]:
        return f"row {ROW_OF[target]} is above row {ROW_OF[package]}"
    if frozenset({package, target}) in STRANGERS:
        return f"{package} and {target} are neighbours that do not import each other"
    return None


def test_no_file_imports_anything_above_its_row() -> None:
    assert [violation for path in sources() for violation in violations(path)] == []


@pytest.mark.parametrize(
    ("where", "line", "expected"),
    [
        ("workbench/framework/program/block.py", "from workbench.ops import add", "row 1 is above row 0"),
        ("workbench/framework/program/block.py", "from ...ops.math import add", "row 1 is above row 0"),
        ("workbench/framework/__init__.py", "from ..executors import Executor", "row 4 is above row 0"),
        ("workbench/ops/math/arithmetic.py", "def f():\n    import workbench", "row 10 is above row 1"),
        ("workbench/ops/math/arithmetic.py", "from workbench import static", "row 10 is above row 1"),
        ("workbench/ops/math/arithmetic.py", "from workbench import mean", "row 10 is above row 1"),
        ("workbench/graph/build.py", "import workbench.runtime.storage.scope", "neighbours"),
        ("workbench/dygraph/tape.py", "from workbench.executors import serial", "neighbours"),
        ("workbench/experiments/run.py", "import matplotlib.pyplot as plt", "only rows 8"),
        ("workbench/runtime/device.py", "import cupy", "CuPy"),
        ("magics/program.py", "import magics.arguments", "exists twice"),
        ("magics/program.py", "from workbench import enable_static", "row 10 is above row 9"),
        ("workbench/shapes/a.py", "import numpy", "in no row"),
        ("workbench/graph/shapes/a.py", "import numpy", "no place among the sub-packages of graph"),
        ("workbench/autodiff/rules/a.py", "import numpy", "no place among the sub-packages of autodiff"),
        ("workbench/framework/op/record.py", "from ..program.block import Block", "is above framework.op"),
        ("workbench/framework/op/record.py", "from workbench.framework import text", "framework.text is above"),
        ("workbench/framework/names.py", "from .op.record import Op", "framework.op is above the files"),
        ("workbench/graph/ssa.py", "def f():\n    from .passes import fuse", "graph.passes is above"),
        ("workbench/ops/tensor/a.py", "from ..math import compare", "ops.math is above ops.tensor"),
        ("workbench/runtime/kernels/math/a.py", "from ..loss.attention import f", "runtime.kernels.loss is above"),
        ("workbench/runtime/kernels/shapes/a.py", "import numpy", "no place among the sub-packages of runtime.kernels"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, where: str, line: str, expected: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert [expected in text for text in violations(path, tmp_path)] == [True]


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("workbench/framework/program/block.py", "from workbench.errors import ProgramError"),
        ("workbench/optimizer/rules/adam.py", "from workbench.autodiff import append_backward"),
        ("workbench/cuda/cupy_driver.py", "import cupy"),
        ("workbench/notebook/plots.py", "from matplotlib.figure import Figure"),
        ("magics/program.py", "from workbench.framework import Program\nfrom IPython.core import magic"),
        ("workbench/static.py", "from workbench.executors.api.executor import Executor"),
        ("workbench/framework/text/printer.py", "from workbench.framework.program.block import Block"),
        ("workbench/framework/text/printer.py", "from workbench.framework import names"),
        ("workbench/framework/text/printer.py", "from . import lexicon"),
        ("workbench/executors/lowering/tape/rules.py", "from workbench.executors.planning.plan import Row"),
    ],
)
def test_an_allowed_import_is_not(tmp_path: Path, where: str, line: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert not list(violations(path, tmp_path))


def test_every_package_is_in_exactly_one_row() -> None:
    packages = [package for packages in ROWS.values() for package in packages]
    assert len(packages) == len(set(packages))


def test_every_place_is_that_of_a_sub_package() -> None:
    for package, rooms in ROOMS.items():
        folders = {path.parent.name for path in (ROOT / "workbench" / package.replace(".", "/")).glob("*/__init__.py")}
        assert {room for room in rooms if room} == folders, package


def folder_of(module: str) -> str:
    """The package, or the sub-package, in which a module lies."""
    parts = module.split(".")
    return parts[1] if len(parts) < 3 or not (ROOT / "workbench" / parts[1] / parts[2]).is_dir() else parts[2]


IMPORT_CHECK = """
import sys
import workbench
heavy = "IPython ipywidgets anywidget matplotlib numba jupyterlab cupy mpi4py typer scipy sklearn".split()
print(",".join(name for name in heavy if name in sys.modules))
import workbench.magics
print("magics" in sys.modules, "assets" in sys.modules)
"""


def test_importing_the_package_loads_no_front_end_compiler_or_gpu() -> None:
    result = subprocess.run(
        [sys.executable, "-c", IMPORT_CHECK],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert result.stderr == ""
    assert result.stdout == "\nFalse False\n"


def test_magics_is_never_a_top_level_module() -> None:
    assert "magics" not in sys.modules
