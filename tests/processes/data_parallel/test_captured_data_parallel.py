"""`jit.capture` of a step through `DataParallel`: the exchange is in the captured step, and all apply it or none."""

from __future__ import annotations

import pytest

from tests.processes.ranks import run_ranks

pytestmark = pytest.mark.processes

_MODEL = """
    import numpy as np
    import workbench as wb
    from workbench import distributed as dist
    from workbench.errors import *

    dist.init_parallel_env()
    rank, size = dist.get_rank(), dist.get_world_size()
    F = wb.nn.functional

    def model(make):
        wb.seed(5)
        net = wb.nn.Sequential(wb.nn.Linear(6, 16), wb.nn.Tanh(), wb.nn.Linear(16, 3))
        wrapped = wb.DataParallel(net)
        optimizer = make(wrapped.parameters())

        def step(x, y):
            loss = F.cross_entropy(wrapped(x), y)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            return loss

        return net, wrapped, step

    def batch(number, of=None):
        rng = np.random.default_rng([number, rank if of is None else of])
        return rng.standard_normal((4, 6), dtype="float32"), rng.integers(0, 3, (4, 1))

    def run(step, steps=20):
        return [float(step(*map(wb.to_tensor, batch(number)))) for number in range(steps)]

    def held(net):
        return b"".join(p.numpy().tobytes() for p in net.parameters())

    if rank == 0:  # what one process has named before makes no difference
        wb.jit.capture(lambda x: x.tanh().sum())(wb.ones([3]))
"""


def test_a_captured_step_computes_the_bits_of_one_that_is_not_captured_and_of_trainers_of_a_program() -> None:
    job = run_ranks(
        _MODEL
        + """
    sgd, adam = (lambda p: wb.optimizer.SGD(0.1, parameters=p)), (lambda p: wb.optimizer.Adam(0.01, parameters=p))
    for make in (sgd, adam):
        wb.set_flags({"FLAGS_cpu_tape": False})  # as dynamic mode computes: NumPy calls
        at_once, _, step = model(make)
        losses = run(step)
        captured, wrapped, step = model(make)
        assert run(wb.jit.capture(step)) == losses
        assert held(captured) == held(at_once)

    wb.set_flags({"FLAGS_cpu_tape": True})
    net, wrapped, step = model(sgd)
    values = [p.numpy().copy() for p in net.parameters()]
    step = wb.jit.capture(step)
    losses = run(step)
    assert step.captures == 1 and step.recorded.graph().settings.num_trainers == size

    wb.enable_static()
    x, y = wb.static.data("x", [None, 6]), wb.static.data("y", [None, 1], "int64")
    out = wb.static.nn.fc(wb.static.nn.fc(x, 16, activation="tanh"), 3)
    loss = wb.mean(F.cross_entropy(out, y))
    wb.optimizer.SGD(0.1).minimize(loss)
    main, scope = wb.static.default_main_program(), wb.static.global_scope()
    wb.static.Executor().run(wb.static.default_startup_program())
    for parameter, value in zip(main.all_parameters(), values, strict=True):
        scope.find_var(parameter.name).get_tensor().set(value, wb.CPUPlace())
    build = wb.static.BuildStrategy()
    build.num_trainers, build.trainer_id = size, rank
    executor = wb.static.ParallelExecutor(False, loss_name=loss.name, main_program=main, build_strategy=build)
    for number in range(20):
        executor.run([loss], feed=dict(zip("xy", batch(number))))
    trained = b"".join(np.array(scope.find_var(p.name).get_tensor()).tobytes() for p in main.all_parameters())
    assert trained == held(net)
    print("same")
    """,
        2,
        timeout=120,
        CPU_NUM="1",
    )
    assert job.code == 0 and job.outputs == ["same\n"] * 2, str(job)


def test_what_keeps_one_process_from_applying_a_captured_step_keeps_all() -> None:
    job = run_ranks(
        _MODEL
        + """
    net, wrapped, step = model(lambda p: wb.optimizer.Adam(0.01, parameters=p))
    captured = wb.jit.capture(step)
    run(captured, 3)
    before = held(net)
    x, y = batch(3)
    if rank == 1:
        y[2] = 7
    try:
        captured(wb.to_tensor(x), wb.to_tensor(y))
        raise SystemExit("applied")
    except EnforceNotMet as error:
        assert isinstance(error, PeerFailed) == (rank == 0) and (rank or error.ranks == (1,)), error
        assert "7" in str(error)
    assert held(net) == before
    twin, _, step = model(lambda p: wb.optimizer.Adam(0.01, parameters=p))
    again = wb.jit.capture(step)
    for number in range(6):
        loss = again(*map(wb.to_tensor, batch(number)))
        if number >= 3:
            assert float(captured(*map(wb.to_tensor, batch(number)))) == float(loss)
    assert held(net) == held(twin)
    print("done")
    """,
        2,
        timeout=120,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)


def test_what_a_captured_step_cannot_exchange_is_refused_and_nothing_is_where_nothing_is_to_be() -> None:
    job = run_ranks(
        _MODEL
        + """
    net, wrapped, _ = model(lambda p: wb.optimizer.SGD(0.1, parameters=p))
    alone = wb.create_parameter([3], "float32")
    x = wb.ones([2, 6])

    def refused(function, told):
        try:
            function(x)
        except Unimplemented as error:
            assert told in str(error), error
        else:
            raise SystemExit("not refused: " + told)
        for p in net.parameters():
            p.clear_gradient()

    refused(wb.jit.capture(lambda x: (wrapped(x) * alone).sum().backward()), alone.name)
    def twice(x):
        wrapped(x).sum().backward()
        wrapped(x).sum().backward()
    refused(wb.jit.capture(twice), "one backward()")
    with wrapped.no_sync():
        wrapped(x).sum().backward()
    captured = wb.jit.capture(lambda x: wrapped(x).sum().backward())
    refused(captured, "adds its gradients to none")
    refused(wb.jit.to_static(lambda x: wrapped(x)), "to_static")

    captured(x * (rank + 1.0))  # gradients that are left behind are means
    left = [p.grad.numpy().copy() for p in net.parameters()]
    for p in net.parameters():
        p.clear_gradient()
    wrapped(x * (rank + 1.0)).sum().backward()
    assert all(np.allclose(a, p.grad.numpy(), rtol=1e-5) for a, p in zip(left, net.parameters()))
    if rank == 0:  # nobody else is needed for these
        with wb.no_grad():
            wb.jit.capture(lambda x: wrapped(x))(x)
        for p in net.parameters():
            p.clear_gradient()
        def kept(x):
            with wrapped.no_sync():
                wrapped(x).sum().backward()
        wb.jit.capture(kept)(x)
    print("done")
    """,
        2,
        timeout=120,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)
