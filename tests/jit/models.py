"""Models written once for both modes: parameters by name, and a loss as a function of them, of x and of y."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import workbench as wb
import workbench.nn.functional as F
from workbench.framework.program.guard import static_mode
from workbench.runtime.storage.scope import Scope

BATCH, CLASSES = 8, 3


class Model(NamedTuple):
    shapes: dict[str, list[int]]
    x: np.ndarray
    loss: Callable[[dict[str, Any], Any, Any], Any]


def _images() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((BATCH, 2, 6, 6)).astype(np.float32)


def _rows() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((BATCH, 5)).astype(np.float32)


def _ids() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 9, (BATCH, 4))


def _cross_entropy(logits: Any, y: Any) -> Any:
    return wb.mean(F.softmax_with_cross_entropy(logits, y))


def mlp(p: dict[str, Any], x: Any, y: Any) -> Any:
    hidden = F.relu(wb.matmul(x, p["a"]) + p["b"])
    return _cross_entropy(wb.matmul(hidden, p["c"]) + p["d"], y)


def dropped(p: dict[str, Any], x: Any, y: Any) -> Any:
    hidden = F.dropout(wb.tanh(wb.matmul(x, p["a"]) + p["b"]), 0.4)
    return _cross_entropy(wb.matmul(hidden, p["c"]) + p["d"], y)


def convolutions(p: dict[str, Any], x: Any, y: Any) -> Any:
    maps = F.max_pool2d(F.relu(F.conv2d(x, p["kernel"], p["bias"], padding=1)), 2)
    return _cross_entropy(wb.matmul(wb.flatten(maps, 1), p["out"]), y)


def normed_embedding(p: dict[str, Any], x: Any, y: Any) -> Any:
    words = F.layer_norm(F.embedding(x, p["table"]), [6], p["scale"], p["shift"])
    return _cross_entropy(wb.matmul(wb.mean(F.gelu(words), axis=1), p["out"]), y)


def recurrent(p: dict[str, Any], x: Any, y: Any) -> Any:
    """A gated cell over the words of a text."""
    words = F.embedding(x, p["table"])
    state = wb.mean(words, axis=1) * 0.0
    for step in range(4):
        both = wb.concat([words[:, step], state], axis=1)
        gate = F.sigmoid(wb.matmul(both, p["gate"]))
        state = gate * state + (1.0 - gate) * wb.tanh(wb.matmul(both, p["cell"]))
    return _cross_entropy(wb.matmul(state, p["out"]), y)


def attention(p: dict[str, Any], x: Any, y: Any) -> Any:
    words = F.embedding(x, p["table"])
    query, key, value = (wb.matmul(words, p[name]) for name in ("query", "key", "value"))
    weights = F.softmax(wb.matmul(query, key, transpose_y=True) * 0.4)
    return _cross_entropy(wb.matmul(wb.mean(words + wb.matmul(weights, value), axis=1), p["out"]), y)


def residual(p: dict[str, Any], x: Any, y: Any) -> Any:
    maps = F.group_norm(F.conv2d(x, p["first"], padding=1), 2, weight=p["scale"], bias=p["shift"])
    maps = maps + F.swish(F.conv2d(maps, p["second"], padding=1, groups=2))
    return _cross_entropy(wb.matmul(wb.mean(maps, axis=[2, 3]), p["out"]), y)


def autoencoder(p: dict[str, Any], x: Any, y: Any) -> Any:
    """Strided down and transposed up; the labels are of no use."""
    code = F.elu(F.conv2d(x, p["down"], stride=2))
    return wb.mean((F.conv2d_transpose(code, p["up"], stride=2) - x) ** 2) + 0.0 * wb.mean(wb.cast(y, "float32"))


def logistic(p: dict[str, Any], x: Any, y: Any) -> Any:
    return F.binary_cross_entropy_with_logits(wb.matmul(x, p["w"]), wb.cast(y > 0, "float32"))


def tied(p: dict[str, Any], x: Any, y: Any) -> Any:
    """One table for words and for answers."""
    words = wb.mean(F.embedding(x, p["table"]), axis=1)
    return _cross_entropy(wb.matmul(words, p["table"], transpose_y=True), y)


def mixture(p: dict[str, Any], x: Any, y: Any) -> Any:
    """Experts side by side in one product of stacks."""
    experts = wb.matmul(wb.stack([x, x], axis=0), p["experts"])
    gates = F.softmax(wb.matmul(x, p["gates"]))
    mixed = wb.sum(experts * wb.unsqueeze(wb.transpose(gates, [1, 0]), 2), axis=0)
    return _cross_entropy(mixed, y)


def normalized(p: dict[str, Any], x: Any, y: Any) -> Any:
    hidden = F.leaky_relu(wb.matmul(F.normalize(x, axis=1), p["a"]) + p["b"], 0.2)
    return F.smooth_l1_loss(wb.matmul(hidden, p["c"]), F.one_hot(wb.squeeze(y, 1), CLASSES))


DENSE = {"a": [5, 7], "b": [7], "c": [7, CLASSES], "d": [CLASSES]}
MODELS = {
    "mlp": Model(DENSE, _rows(), mlp),
    "dropout": Model(DENSE, _rows(), dropped),
    "convolutions": Model({"kernel": [4, 2, 3, 3], "bias": [4], "out": [36, CLASSES]}, _images(), convolutions),
    "recurrent": Model({"table": [9, 5], "gate": [10, 5], "cell": [10, 5], "out": [5, CLASSES]}, _ids(), recurrent),
    "attention": Model(
        {"table": [9, 6], "query": [6, 6], "key": [6, 6], "value": [6, 6], "out": [6, CLASSES]}, _ids(), attention
    ),
    "residual": Model(
        {"first": [4, 2, 3, 3], "second": [4, 2, 3, 3], "scale": [4], "shift": [4], "out": [4, CLASSES]},
        _images(), residual,
    ),
    "autoencoder": Model({"down": [3, 2, 2, 2], "up": [3, 2, 2, 2]}, _images(), autoencoder),
    "logistic": Model({"w": [5, 1]}, _rows(), logistic),
    "tied": Model({"table": [9, 6]}, _ids(), tied),
    "mixture": Model({"experts": [2, 5, CLASSES], "gates": [5, 2]}, _rows(), mixture),
    "normalized": Model({"a": [5, 7], "b": [7], "c": [7, CLASSES]}, _rows(), normalized),
    "embedding": Model({"table": [9, 6], "scale": [6], "shift": [6], "out": [6, CLASSES]}, _ids(), normed_embedding),
}  # fmt: skip
LABELS = np.random.default_rng(2).integers(0, CLASSES, (BATCH, 1))


def values(model: Model) -> dict[str, np.ndarray]:
    """What the parameters begin with."""
    rng = np.random.default_rng(3)
    return {name: rng.standard_normal(shape).astype(np.float32) * 0.3 for name, shape in model.shapes.items()}


def parameters(model: Model) -> dict[str, Any]:
    created = {name: wb.create_parameter(shape, "float32", name=name) for name, shape in model.shapes.items()}
    with wb.no_grad():
        for name, value in values(model).items():
            created[name].set_value(value)
    return created


def as_program(
    model: Model, optimizer: Callable[[], Any], steps: int, devices: int
) -> tuple[list[Any], dict[str, Any]]:
    """Losses and parameters of the static program of a model, run by ParallelExecutor's engine."""
    main, startup, scope = wb.static.Program(), wb.static.Program(), Scope()
    with static_mode(), wb.static.program_guard(main, startup), wb.utils.unique_name.guard():
        p = {name: wb.create_parameter(shape, "float32", name=name) for name, shape in model.shapes.items()}
        x = wb.static.data("x", [None, *model.x.shape[1:]], model.x.dtype)
        y = wb.static.data("y", [None, 1], "int64")
        loss = model.loss(p, x, y)
        optimizer().minimize(loss)
    executor = wb.static.Executor()
    executor.run(startup, scope=scope)
    for name, value in values(model).items():
        scope.var(name).set(value)
    compiled = wb.static.CompiledProgram(main).with_data_parallel(loss.name, places=wb.static.cpu_places(devices))
    feed = {"x": model.x, "y": LABELS}
    losses = [executor.run(compiled, feed=feed, fetch_list=[loss], scope=scope)[0] for _ in range(steps)]
    return losses, {name: np.array(scope.get(name).get_tensor()) for name in model.shapes}


def training(model: Model, optimizer: Callable[..., Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A step of dynamic mode, and the parameters it works on."""
    p = parameters(model)
    updates = optimizer(parameters=list(p.values()))
    loss_of = model.loss

    def train_step(x: Any, y: Any) -> Any:
        loss = loss_of(p, x, y)
        loss.backward()
        updates.step()
        updates.clear_grad()
        return loss

    return train_step, p


def run(step: Callable[..., Any], model: Model, steps: int) -> list[np.ndarray]:
    return [step(wb.to_tensor(model.x), wb.to_tensor(LABELS)).numpy() for _ in range(steps)]
