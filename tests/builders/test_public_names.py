"""Paddle's names lead here, and the programs they build survive being written down."""

import numpy as np
import pytest

import workbench as paddle
from tests.builders.building import Session, program
from workbench.framework.program.program import Program


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (paddle, "ParamAttr create_parameter"),
        (paddle.static, "data create_parameter create_global_var"),
        (paddle.static.nn, "fc embedding conv2d conv2d_transpose batch_norm layer_norm"),
        (paddle.nn, "ClipGradByValue ClipGradByNorm ClipGradByGlobalNorm"),
        (paddle.nn.initializer, "Constant Uniform Normal TruncatedNormal XavierUniform XavierNormal KaimingUniform"),
        (paddle.nn.initializer, "KaimingNormal Assign set_global_initializer calculate_gain"),
        (paddle.optimizer, "SGD Momentum Adam AdamW Adagrad RMSProp Adamax Optimizer lr"),
        (paddle.regularizer, "L1Decay L2Decay"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_names(module, names):
    for name in names.split():
        assert name in module.__all__
        assert getattr(module, name) is not None


def build(optimizer):
    x, y = paddle.static.data("x", [None, 1, 6, 6]), paddle.static.data("y", [None, 1])
    h = paddle.static.nn.conv2d(x, 2, 3, act="relu")
    h = paddle.static.nn.batch_norm(h)
    attr = paddle.ParamAttr(
        initializer=paddle.nn.initializer.Assign(np.full((32, 1), 0.25)),
        regularizer=paddle.regularizer.L1Decay(0.01),
        learning_rate=0.5,
    )
    error = paddle.static.nn.fc(h, 1, weight_attr=attr) - y
    loss = paddle.mean(error * error)
    optimizer.minimize(loss)
    return loss.name


def losses(main, startup, fetch):
    session = Session(main, startup)
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal((8, 1, 6, 6)).astype("float32"), "y": np.ones((8, 1), "float32")}
    return [float(session.run([fetch], **feed)[0][0]) for _ in range(4)]


@pytest.mark.parametrize("schedule", [True, False])
def test_a_program_trains_alike_after_json_and_clone(schedule):
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    rate = paddle.optimizer.lr.StepDecay(0.1, 2) if schedule else 0.1
    optimizer = paddle.optimizer.Adam(rate, weight_decay=0.1, grad_clip=clip)
    with program(3) as (main, startup):
        fetch = build(optimizer)
    if not schedule:
        optimizer.set_lr(0.05)
    expected = losses(main, startup, fetch)
    assert expected[-1] < expected[0]
    copies = [Program.parse_from_string(p.serialize_to_string()) for p in (main, startup)]
    assert losses(*copies, fetch) == expected
    assert losses(main.clone(), startup.clone(), fetch) == expected


def test_a_test_clone_has_no_state_of_the_optimizer():
    """P-22."""
    with program(3) as (main, _):
        build(paddle.optimizer.Adam(0.1))
    test = main.clone(for_test=True)
    assert {v.name for v in test.persistables()} == {p.name for p in main.all_parameters()}
    assert "adam" not in {op.type for op in test.global_block().ops}
