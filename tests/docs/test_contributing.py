"""The worked examples of the contributors' page run as printed; their op and communicator pass the suites for such."""

from __future__ import annotations

import importlib
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
from tests.autodiff.small import Built
from tests.executors.tape.runs import tape
from tests.graph.building import apply, build, regression
from tests.graph.interpret import bits, interpret, some_values
from tests.ops import case as harness
from tests.ops import test_cases
from tests.parallel.models import devices as devices_of
from workbench.executors.planning.shapes import Shapes
from workbench.experiments.bench.roofline import rows_by_lowering
from workbench.framework.op.record import OPS, all_ops
from workbench.notebook.dashboard.watching.graph_message import graph_message
from workbench.notebook.dashboard.watching.node_message import node_message
from workbench.runtime import devices

all_ops()  # fills the table, from which the fixture takes the example's ops again
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


# The op of the page as one of a package


@pytest.fixture
def shrinkage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The page's declaration in a module of its own, imported; nothing else is told of it."""
    known = set(OPS)
    (tmp_path / "shrinkage.py").write_text(blocks(sections()["How to add an op"])[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        yield importlib.import_module("shrinkage").hard_shrink
    finally:
        sys.modules.pop("shrinkage", None)
        for name in OPS.keys() - known:
            del OPS[name]


@pytest.fixture
def trained(shrinkage: Any) -> tuple[Built, Any]:
    """A net that is trained through the op, and its loss."""
    with Built() as built:
        image = wb.static.data("image", [None, 8])
        hidden = shrinkage(wb.static.nn.fc(image, 16) * 2.0, threshold=0.1)
        loss = wb.mean(wb.square(wb.tanh(hidden) - 0.5))
        wb.optimizer.SGD(0.1).minimize(loss)
    return built, loss


def started(built: Built) -> wb.static.Scope:
    scope, built.startup.random_seed = wb.static.Scope(), 5
    wb.static.Executor().run(built.startup, scope=scope)
    return scope


IMAGES = {"image": np.random.default_rng(0).standard_normal((12, 8)).astype(np.float32)}


def test_a_new_op_trains_in_both_executors(trained: tuple[Built, Any]) -> None:
    built, loss = trained
    alone, scope = wb.static.Executor(), started(built)
    expected = [alone.run(built.main, feed=IMAGES, fetch_list=[loss], scope=scope)[0].item() for _ in range(4)]
    for count in (1, 2):
        with devices_of(count):
            several = wb.static.ParallelExecutor(
                use_cuda=False, loss_name=loss.name, main_program=built.main, scope=started(built)
            )
        losses = [float(np.mean(several.run([loss], feed=IMAGES)[0])) for _ in range(4)]
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert expected[-1] < expected[0]


def test_a_new_op_is_joined_runs_in_kernels_and_is_shown(trained: tuple[Built, Any]) -> None:
    built, loss = trained
    strategy, scope = wb.static.BuildStrategy(), started(built)
    strategy.enable_auto_fusion = True
    with tape(), devices_of(1):
        executor = wb.static.ParallelExecutor(
            use_cuda=False, loss_name=loss.name, main_program=built.main, scope=scope, build_strategy=strategy
        )
        executor.run([loss], feed=IMAGES)
        plan = executor.inspection.last.plan
        _, by_numpy = rows_by_lowering(executor.inspection.last)
    joined = [n for n in plan.graph.nodes if "hard_shrink" in str(n.attrs.get("types")) and n in plan.native]
    types = {type for node in joined for type in node.attrs["types"]}
    assert {"scale", "hard_shrink", "tanh"} <= types and {"hard_shrink_grad", "tanh_grad"} <= types
    assert not by_numpy
    numbers = [plan.graph.nodes.index(node) for node in joined]
    shown = [node_message(plan.graph, plan.shapes, number, []) for number in numbers]
    assert any("hard_shrink" in message["attrs"]["types"] for message in shown)
    apart = executor.inspection.graph((loss.name,), observed=True)
    labels = graph_message(1, "net", apart, Shapes(apart, {}))["node"]["label"]
    assert "hard_shrink hard_shrink_0.tmp_0" in labels
    assert any(label.startswith("hard_shrink_grad ") for label in labels)


def test_the_examples_case_agrees_with_its_reference(example: dict[str, Any]) -> None:
    case = example["CASE"]
    assert isinstance(case, harness.Case)
    output = OPS["hard_shrink"].forward(np, *case.inputs, **case.attrs)
    assert np.array_equal(output, case.ref(*case.inputs, **case.attrs))


def test_the_optimizers_cases_agree_with_their_reference(example: dict[str, Any]) -> None:
    for case in example["CASES"]:
        assert len(case.arrays("float64")) == 4
        test_cases.test_forward(case)


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


@pytest.mark.timeout(600)
def test_the_examples_kernel_is_compiled_and_does_the_row(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("kernels are made for Linux on x86-64")
    command = [sys.executable, "-m", "tests.docs.kernel_example", str(tmp_path / "image")]
    example = "\0".join(blocks(sections()[KERNEL]))
    done = subprocess.run(command, input=example, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr
    shown, rows = done.stdout.splitlines()
    assert shown.startswith("in the dashboard's graph: running_max ")
    assert rows == "rows of the example in compiled kernels: 1, by NumPy: 0"


def the_communicators_tests() -> type:
    """The test class of the section on communicators, whose blocks need nothing of the others but NumPy."""
    namespace: dict[str, Any] = {"np": np}
    for number, block in enumerate(blocks(sections()["How to add a communicator"])):
        exec(compile(block, f"CONTRIBUTING.md communicator block {number}", "exec"), namespace)
    return namespace["TestPlain"]


TestTheExamplesCommunicator = the_communicators_tests()
