"""Reduce mode: what every device has a copy of is the same on all of them, whoever writes it."""

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, build
from workbench import static
from workbench.graph.settings import ReduceStrategy

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(12, 2)


def halved(where: str) -> Model:
    """A parameter that a forward operator writes, too, before the update or after it."""

    def body() -> static.Variable:
        w = static.create_parameter([2, 3], "float32", name="w")
        loss = wb.mean(wb.matmul(static.data("x", [None, 2]), wb.tanh(w)))
        if where == "before":
            wb.assign(w * 0.5, output=w)
        return loss

    model = build(body, wb.optimizer.SGD(0.5))
    if where == "after":
        with static.program_guard(model.main, model.startup):
            w = model.main.global_block().var("w")
            wb.assign(w * 0.5, output=w)
    return model.start()


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("devices", [2, 3])
def test_a_parameter_that_is_written_twice_has_one_value(where: str, devices: int) -> None:
    serial = halved(where)
    for _ in range(3):
        static.Executor().run(serial.main, feed={"x": X}, scope=serial.scope)
    strategy = static.BuildStrategy()
    strategy.reduce_strategy = ReduceStrategy.Reduce
    model = halved(where)
    exe = model.parallel(devices, build_strategy=strategy)
    for _ in range(3):
        exe.run([], feed={"x": X})
    for device in range(devices):
        value = exe.local_scope(device).find_var("w").get_tensor()
        np.testing.assert_allclose(value, serial.value("w"), rtol=1e-5, atol=1e-6)
