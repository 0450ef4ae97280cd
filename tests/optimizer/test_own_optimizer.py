"""An optimizer that a user declares outside the package, with a power that is not called after a beta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.executors.tape.runs import tape
from tests.parallel.models import devices
from tests.servers.test_modes import GRADIENT, dense_model, job
from tests.servers.test_modes import START as SERVED
from workbench.config import override
from workbench.executors.lowering.tape.registry import RULES
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.experiments.bench.own_program import native_nodes
from workbench.framework.op.record import OPS
from workbench.graph.ssa import FUSED_UPDATE
from workbench.ops.update.update import update_op
from workbench.optimizer.checks import checked_beta
from workbench.optimizer.groups import of_the_op
from workbench.optimizer.optimizer import Optimizer

START = {name: np.linspace(start, 1, 64).astype(np.float32) for name, start in (("a", -1.0), ("b", -2.0))}
FEED = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
RATE, RHO, STEPS = 0.25, 0.75, 4


@pytest.fixture
def fading() -> Iterator[type[Optimizer]]:
    """Its steps become shorter by a factor; the state of it ends in Pow as powers do, and is none."""

    @update_op("toy_fading", "StepPow", betas="rho", attrs={"rho": 0.5})
    def FADING_UPDATE(xp: Any, p: Any, g: Any, lr: Any, s: Any, rho_power: Any, rho: float) -> tuple[Any, ...]:
        """p -= lr rho^t (g + s); s = g."""
        return p - lr * rho_power * (g + s), g

    class Fading(Optimizer):
        op = FADING_UPDATE
        options = Optimizer.options | of_the_op(rho=checked_beta)

        def __init__(self, learning_rate: float, rho: float) -> None:
            super().__init__(learning_rate)
            self._set_options(rho=rho)

    try:
        yield Fading
    finally:
        del OPS["toy_fading"]


def expected() -> dict[str, np.ndarray]:
    values = {}
    for name, start in START.items():
        p, s, g = start.astype(np.float64), 0.0, FEED.astype(np.float64).mean(0)
        for t in range(1, STEPS + 1):
            p, s = p - RATE * RHO**t * (g + s), g
        values[name] = p
    return values


def trained(fading: type[Any], count: int) -> tuple[dict[str, np.ndarray], list[np.ndarray], Any]:
    """The parameters and the powers of all devices after some steps, and the executor."""
    main, startup, scope = wb.static.Program(), wb.static.Program(), wb.static.Scope()
    with wb.static.program_guard(main, startup), wb.utils.unique_name.guard():
        x = wb.static.data("x", [None, 64])
        attrs = {n: wb.ParamAttr(name=n, initializer=wb.nn.initializer.Assign(v)) for n, v in START.items()}
        weights = [wb.static.create_parameter([64], "float32", attr=attr) for attr in attrs.values()]
        loss = wb.mean(sum(wb.sum(x * w, axis=1) for w in weights))
        fading(RATE, RHO).minimize(loss)
    wb.static.Executor().run(startup, scope=scope)
    with devices(count):
        executor = wb.static.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=main, scope=scope)
    for _ in range(STEPS):
        executor.run([], feed={"x": FEED})
    values = {name: np.array(scope.find_var(name).get_tensor()) for name in START}
    powers = executor.run([f"{name}_rho_pow_acc_0" for name in START], feed={"x": FEED})
    return values, powers, executor


@pytest.fixture(autouse=True)
def _static() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("way", ["kernels", "calls", "refused by kernels"])
def test_it_trains_on_devices(fading: type[Optimizer], count: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(writer: Any, row: Any) -> None:
        raise Unsuitable

    if way == "refused by kernels":
        monkeypatch.setitem(RULES, FUSED_UPDATE, refuse)
    with override(cpu_tape=False) if way == "calls" else tape():
        values, powers, executor = trained(fading, count)
    types = [node.type for node in native_nodes(executor.inspection.last)]
    assert (FUSED_UPDATE in types) == (way == "kernels")
    for name, value in expected().items():
        np.testing.assert_allclose(values[name], value, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(np.stack(powers), np.full((2, count), RHO ** (STEPS + 2)), rtol=1e-6)


@pytest.mark.parametrize("sync", [True, False])
def test_servers_keep_its_state(fading: type[Any], sync: bool) -> None:
    """A parameter in two blocks, each of which has state and a power of its own."""
    with job(lambda: dense_model(lambda: fading(RATE, RHO)), sync) as ((trainer,), scopes):
        values = [trainer.step() for _ in range(STEPS)]
        powers = [n for scope in scopes for n in scope.local_var_names() if "rho_pow_acc" in n]
    assert len(powers) == 2
    p, s = SERVED.astype(np.float64), 0.0
    for t, value in enumerate(values, 1):
        p, s = p - RATE * RHO**t * (GRADIENT + s), GRADIENT
        np.testing.assert_allclose(value, p, rtol=2e-5, atol=1e-5)
