"""Every name of CuPy that `cupy_driver` uses is there, takes that many arguments, and its numbers are CuPy's."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench.cuda import driver as interface
from workbench.cuda.driver import NCCL_REDUCTIONS, NCCL_TYPES, CudaDriver

pytest.importorskip("cupy", reason="needs CuPy (no GPU): pip install cupy-cuda12x nvidia-nccl-cu12")
SOURCE = Path(wb.__file__).parent / "cuda" / "cupy_driver.py"
PACKAGES = {
    "runtime": "cupy.cuda.runtime",
    "driver": "cupy.cuda.driver",
    "nccl": "cupy.cuda.nccl",
    "pathfinder": "cuda.pathfinder",
}
"""Names at the top of that file, and where what they stand for comes from."""


def package(name: str) -> Any:
    """A module, or a class where `rank` is meant: the methods of a communicator."""
    if name == "rank":
        return importlib.import_module("cupy.cuda.nccl").NcclCommunicator
    whole = PACKAGES[name]
    try:
        return importlib.import_module(whole)
    except ModuleNotFoundError:
        outer, _, inner = whole.rpartition(".")
        return getattr(importlib.import_module(outer), inner)


def used_names(source: str) -> set[tuple[str, str]]:
    """Pairs of a package's name in that file, or `rank`, and a dotted name within it."""
    chains = (ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    parts = (chain.partition(".") for chain in chains)
    return {(first, rest) for first, _, rest in parts if first in PACKAGES or first == "rank"}


def used_calls(source: str) -> Iterator[tuple[str, str, int]]:
    """The calls of such names, each with the number of arguments; a starred tuple of three counts three."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first, _, rest = ast.unparse(node.func).partition(".")
            if first in PACKAGES or first == "rank":
                assert not node.keywords, ast.unparse(node)
                yield first, rest, sum(3 if isinstance(arg, ast.Starred) else 1 for arg in node.args)


def arguments(callee: Any) -> tuple[int, int]:
    """The least and the largest number of arguments, by the signature or by what Cython wrote into the docstring."""
    told = re.match(r"[\w.]+\((.*?)\)", inspect.getdoc(callee) or "")
    if told is None:
        given = [p for p in inspect.signature(callee).parameters.values() if p.name != "self"]
        return sum(p.default is p.empty for p in given), len(given)
    parameters = [text.strip() for text in told.group(1).split(",") if text.strip() not in ("", "self")]
    return sum("=" not in text for text in parameters), len(parameters)


NAMES = sorted(used_names(SOURCE.read_text("utf-8")))
CALLS = sorted(set(used_calls(SOURCE.read_text("utf-8"))))


def test_the_file_is_read() -> None:
    assert len(NAMES) > 70 and len(CALLS) > 50 and {first for first, _ in NAMES} == {*PACKAGES, "rank"}


def reached(first: str, rest: str) -> Any:
    value = package(first)
    for part in re.sub(r"\(.*?\)", "", rest).split("."):
        if isinstance(value, (type(pytest), type)):
            value = getattr(value, part)
    return value


@pytest.mark.parametrize(("first", "rest"), [pair for pair in NAMES if "(" not in pair[1]])
def test_a_name_is_there(first: str, rest: str) -> None:
    assert reached(first, rest) is not None


@pytest.mark.parametrize(("first", "rest", "count"), CALLS)
def test_a_call_has_as_many_arguments_as_are_taken(first: str, rest: str, count: int) -> None:
    least, most = arguments(reached(first, rest))
    assert least <= count <= most


def test_a_name_that_is_not_there_and_an_argument_too_many_are_seen() -> None:
    source = "def f(rank):\n    runtime.memcopy(1)\n    rank.allReduce(1, 2)\n"
    assert used_names(source) == {("runtime", "memcopy"), ("rank", "allReduce")}
    with pytest.raises(AttributeError):
        reached("runtime", "memcopy")
    assert list(used_calls(source)) == [("runtime", "memcopy", 1), ("rank", "allReduce", 2)]
    assert arguments(reached("rank", "allReduce")) == (6, 6) and arguments(reached("runtime", "memcpy")) == (4, 4)
    assert arguments(reached("runtime", "streamWaitEvent")) == (2, 3)


def test_the_keys_of_device_properties_are_among_the_strings_of_the_binary() -> None:
    tree = ast.parse(SOURCE.read_text("utf-8"))
    keys = [
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and ast.unparse(node.value) == "told"
    ]
    binary = Path(importlib.import_module("cupy_backends.cuda.api.runtime").__file__ or "").read_bytes()
    assert len(keys) == 11 and [key for key in keys if str(key).encode() not in binary] == []


def test_numbers_of_types_and_reductions_are_those_of_nccl() -> None:
    nccl = package("nccl")
    if not nccl.available:
        pytest.skip("needs nvidia-nccl-cu12")
    names = {"bool": "UINT8", "sum": "SUM", "mean": "AVG"}
    for table in (NCCL_TYPES, NCCL_REDUCTIONS):
        assert {name: getattr(nccl, f"NCCL_{names.get(name, name.upper())}") for name in table} == table
    assert len(nccl.get_unique_id()) == 128


def methods(kind: type) -> dict[str, inspect.Signature]:
    return {name: inspect.signature(call) for name, call in vars(kind).items() if name[0] != "_" and callable(call)}


def test_the_body_offers_the_interface_and_nothing_else() -> None:
    from workbench.cuda.cupy_driver import CupyDriver

    assert methods(CupyDriver) == methods(CudaDriver)


def test_without_a_driver_an_error_of_the_house_says_what_cuda_said() -> None:
    from workbench.cuda.cupy_driver import CupyDriver

    if importlib.import_module("cupy").cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(interface.CudaError, match="device_count: ") as caught:
        CupyDriver().device_count()
    assert caught.value.code in ("cudaErrorInsufficientDriver", "cudaErrorNoDevice")


def test_a_query_tells_work_from_failure() -> None:
    from workbench.cuda import cupy_driver

    assert cupy_driver._done(0) and not cupy_driver._done(600)
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        cupy_driver._done(700)
