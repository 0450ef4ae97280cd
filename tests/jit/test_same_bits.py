"""A captured step gives the bits of the static program of the same model, and follows dynamic mode to rounding."""

from functools import partial

import numpy as np
import pytest

import workbench as wb
from tests.jit.models import LABELS, MODELS, as_program, mlp, run, training

OPTIMIZERS = {
    "sgd": partial(wb.optimizer.SGD, 0.1),
    "momentum": partial(wb.optimizer.Momentum, 0.05, weight_decay=1e-3),
    "adam": partial(wb.optimizer.Adam, 0.02, grad_clip=wb.nn.ClipGradByGlobalNorm(0.5)),
    "adamw": partial(wb.optimizer.AdamW, 0.02, weight_decay=0.1),
}
STEPS = 4


@pytest.fixture(autouse=True)
def _seed() -> None:
    wb.seed(11)


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(("model", "optimizer"), [
    ("mlp", "sgd"), ("mlp", "adam"), ("dropout", "momentum"), ("convolutions", "momentum"),
    ("convolutions", "adamw"), ("embedding", "adam"), ("embedding", "adamw"), ("recurrent", "adam"),
    ("attention", "momentum"), ("residual", "sgd"), ("autoencoder", "adam"), ("logistic", "sgd"), ("tied", "adamw"),
    ("mixture", "momentum"), ("normalized", "sgd"),
])  # fmt: skip
def test_a_captured_step_has_the_bits_of_the_static_program(model: str, optimizer: str, devices: int) -> None:
    losses, weights = as_program(MODELS[model], OPTIMIZERS[optimizer], STEPS, devices)
    step, parameters = training(MODELS[model], OPTIMIZERS[optimizer])
    captured = wb.jit.capture(step, devices=devices)
    captured_losses = run(captured, MODELS[model], STEPS)
    assert [np.ravel(f).tobytes() for f in captured_losses] == [np.ravel(loss).tobytes() for loss in losses]
    assert {name: p.numpy().tobytes() for name, p in parameters.items()} == {
        name: value.tobytes() for name, value in weights.items()
    }
    assert captured.captures == 1


@pytest.mark.parametrize("model", [name for name in MODELS if name != "dropout"])
def test_a_captured_step_follows_dynamic_mode(model: str) -> None:
    step, expected = training(MODELS[model], OPTIMIZERS["adam"])
    losses = run(step, MODELS[model], STEPS)
    step, parameters = training(MODELS[model], OPTIMIZERS["adam"])
    assert np.allclose(run(wb.jit.capture(step), MODELS[model], STEPS), losses, rtol=1e-5, atol=1e-6)
    for name, value in expected.items():
        assert np.allclose(parameters[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-5), name


def test_two_devices_split_the_batch_and_give_a_loss_each() -> None:
    step, _ = training(MODELS["mlp"], OPTIMIZERS["sgd"])
    (both,) = run(wb.jit.capture(step, devices=2), MODELS["mlp"], 1)
    _, fresh = training(MODELS["mlp"], OPTIMIZERS["sgd"])
    parts = [(wb.to_tensor(MODELS["mlp"].x[rows]), wb.to_tensor(LABELS[rows])) for rows in (slice(4), slice(4, 8))]
    halves = [mlp(fresh, x, y).numpy() for x, y in parts]
    assert both.shape == (2,) and np.allclose(both, halves, rtol=1e-5)
