"""The worked examples of the contributors' page run as printed; their op and communicator pass the suites for such."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.ops  # fills the op table, from which the fixture takes the example's ops again
from tests.graph.building import apply, build, regression
from tests.graph.interpret import bits, interpret, some_values
from tests.ops import case as harness
from workbench.framework.op.record import OPS
from workbench.runtime import devices

PAGE = Path(wb.__file__).parent / "CONTRIBUTING.md"


KERNEL = "How to add a kernel"  # it compiles: `kernel_example` runs it in a process of its own


def blocks(text: str) -> list[str]:
    """The Python blocks of a text in Markdown."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def sections() -> dict[str, str]:
    """The sections of the page, by title."""
    parts = [part.partition("\n") for part in PAGE.read_text().split("\n## ")[1:]]
    return {title: text for title, _, text in parts}


@pytest.fixture
def example() -> Iterator[dict[str, Any]]:
    """The namespace after running the page's Python blocks."""
    known = dict(OPS)
    main, startup = wb.static.Program(), wb.static.Program()
    namespace: dict[str, Any] = {}
    try:
        with wb.static.program_guard(main, startup):
            for title, text in sections().items():
                for number, block in enumerate(blocks(text) if title != KERNEL else ()):
                    exec(compile(block, f"CONTRIBUTING.md, {title}, block {number}", "exec"), namespace)
        yield namespace
    finally:
        wb.disable_static()
        for name in OPS.keys() - known.keys():
            del OPS[name]
        devices._KINDS.pop("metered", None)


def test_the_example_runs_as_printed(example: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert example["out"].tolist() == [[-1.0, 0.0, 0.7]]
    assert {"hard_shrink", "hard_shrink_grad"} <= OPS.keys()


def test_the_examples_case_agrees_with_its_reference(example: dict[str, Any]) -> None:
    case = example["CASE"]
    assert isinstance(case, harness.Case)
    found = OPS["hard_shrink"].forward(np, *case.inputs, **case.attrs)
    assert np.array_equal(found, case.ref(*case.inputs, **case.attrs))


def test_the_examples_pass_keeps_the_bits_of_other_programs(example: dict[str, Any]) -> None:
    one = example["DropIdentityScales"]()
    program = regression((3, 2), optimizer=wb.optimizer.Adam(0.1, grad_clip=wb.nn.ClipGradByGlobalNorm(1.0)))
    x = program.global_block().var("fc_0.tmp_0")
    with wb.static.program_guard(program, wb.static.Program()):
        for scale in (1.0, 2.0):
            x = wb.scale(x, scale)
    plain, graph = (build(program, 2, [x.name]) for _ in range(2))
    assert apply(graph, one) == [True]
    assert bits(interpret(graph, some_values())) == bits(interpret(plain, some_values()))


def test_the_examples_device_hands_out_memory(example: dict[str, Any]) -> None:
    handed_out = example["MeteredDevice"].handed_out
    assert sorted(handed_out) == [0, 1] and all(nbytes > 0 for nbytes in handed_out.values())


def test_the_examples_kernel_is_compiled_and_does_the_row(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("kernels are made for Linux on x86-64")
    command = [sys.executable, "-m", "tests.docs.kernel_example", str(tmp_path / "image")]
    example = "\0".join(blocks(sections()[KERNEL]))
    done = subprocess.run(command, input=example, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "rows of the example in compiled kernels: 1, by NumPy: 0\n"


def the_communicators_tests() -> type:
    """The test class of the section on communicators, whose blocks need nothing of the others but NumPy."""
    namespace: dict[str, Any] = {"np": np}
    for number, block in enumerate(blocks(sections()["How to add a communicator"])):
        exec(compile(block, f"CONTRIBUTING.md communicator block {number}", "exec"), namespace)
    return namespace["TestPlain"]


TestTheExamplesCommunicator = the_communicators_tests()
