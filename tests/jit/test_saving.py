"""Layers and functions as files: read back as a layer, and as a program for executors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.nn.functional as F
from workbench import nn, static
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.program.guard import static_mode
from workbench.runtime.storage.scope import Scope


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2D(1, 3, 3), nn.BatchNorm2D(3), nn.Linear(48, 2)

    def forward(self, x: Any) -> Any:
        hidden = F.dropout(F.relu(self.norm(self.conv(x))), 0.5, training=self.training)
        return self.out(wb.flatten(hidden, 1))


SPEC = [static.InputSpec([None, 1, 6, 6], "float32", "image")]


@pytest.fixture
def images() -> Any:
    return wb.to_tensor(np.random.default_rng(0).standard_normal((5, 1, 6, 6)).astype(np.float32))


@pytest.fixture
def net(images: Any) -> Net:
    net = Net()
    net(images)  # the running statistics move
    return net


def evaluated(net: Any, x: Any) -> np.ndarray:
    net.eval()
    outputs: np.ndarray = net(x).numpy()
    net.train()
    return outputs


def test_a_layer_comes_back_as_a_layer_that_can_be_trained(net: Net, images: Any, tmp_path: Path) -> None:
    wb.jit.save(net, tmp_path / "net", SPEC)
    assert net.training and net.norm.training
    loaded = wb.jit.load(tmp_path / "net")
    expected = evaluated(net, images)
    assert np.allclose(loaded(images).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert np.allclose(loaded(images[:2]).numpy(), expected[:2], rtol=1e-5, atol=1e-6)
    assert loaded.program().global_block().ops[0].type == "conv2d"
    assert sorted(p.name for p in loaded.parameters()) == sorted(p.name for p in net.parameters())
    updates = wb.optimizer.SGD(0.05, parameters=loaded.parameters())
    losses = []
    for _ in range(5):
        loss = loaded(images).square().mean()
        loss.backward()
        updates.step()
        updates.clear_grad()
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


def test_a_saved_layer_is_a_program_for_executors(net: Net, images: Any, tmp_path: Path) -> None:
    wb.jit.save(net, str(tmp_path / "net"), SPEC)
    scope = Scope()
    with static_mode(), static.scope_guard(scope):
        executor = static.Executor()
        program, feeds, fetches = static.load_inference_model(str(tmp_path / "net"), executor)
        (output,) = executor.run(program, feed={feeds[0]: images.numpy()}, fetch_list=fetches)
    assert feeds == ["image"] and np.allclose(output, evaluated(net, images), rtol=1e-5, atol=1e-6)


def test_a_program_comes_back_as_a_layer(tmp_path: Path) -> None:
    main, startup, scope = static.Program(), static.Program(), Scope()
    with static_mode(), static.program_guard(main, startup), static.scope_guard(scope):
        x, unused = static.data("x", [None, 4]), static.data("unused", [None, 1])
        hidden = static.nn.fc(x, 3, activation="relu")
        outputs = [static.nn.fc(hidden, 2), hidden]
        loss = wb.mean(outputs[0])
        wb.optimizer.Adam(0.1).minimize(loss)
        executor = static.Executor()
        executor.run(startup)
        static.save_inference_model(tmp_path / "m", [x, unused], outputs, executor)
        feed = {"x": np.ones((2, 4), np.float32), "unused": np.ones((2, 1), np.float32)}
        program, feeds, fetches = static.load_inference_model(tmp_path / "m", executor)
        expected = executor.run(program, feed=feed, fetch_list=fetches)
    assert feeds == ["x", "unused"] and not any("moment" in v.name for v in program.list_vars())
    results = wb.jit.load(tmp_path / "m")(wb.ones([2, 4]), wb.ones([2, 1]))
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(results, expected, strict=True))


def test_the_program_that_is_named_is_the_one_that_is_saved(tmp_path: Path) -> None:
    main = static.Program()
    with static_mode(), static.program_guard(main, static.Program()):
        x = static.data("x", [None, 2])
        y = x * 2.0
    other = main.clone()
    other.global_block().ops[0].attrs["scale"] = 3.0
    executor = static.Executor()
    for path, chosen in (("own", {}), ("other", {"program": other})):
        static.save_inference_model(tmp_path / path, [x], [y], executor, **chosen)
    ones = np.ones((1, 2), np.float32)
    for path, expected in (("own", 2.0), ("other", 3.0)):
        program, _, fetches = static.load_inference_model(tmp_path / path, executor)
        assert executor.run(program, feed={"x": ones}, fetch_list=fetches)[0].tolist() == [[expected] * 2]


def test_without_a_specification_it_is_what_it_was_called_with(net: Net, images: Any, tmp_path: Path) -> None:
    wb.jit.to_static(net)
    with pytest.raises(PreconditionNotMet, match="pass input_spec, or call it once"):
        wb.jit.save(net, tmp_path / "net")
    net(images)
    wb.jit.save(net, tmp_path / "net")
    assert np.allclose(wb.jit.load(tmp_path / "net")(images).numpy(), evaluated(net, images), rtol=1e-5, atol=1e-6)


def test_functions_are_saved_too(tmp_path: Path) -> None:
    w = wb.to_tensor([1.0, 2.0])
    wb.jit.save(wb.jit.to_static(lambda x: (x * w, x + 1)), tmp_path / "f", [static.InputSpec([2])])
    first, second = wb.jit.load(tmp_path / "f")(wb.to_tensor([3.0, 4.0]))
    assert first.tolist() == [3.0, 8.0] and second.tolist() == [4.0, 5.0]


def test_what_is_wrong_is_told(net: Net, tmp_path: Path) -> None:
    with pytest.raises(InvalidType, match="a layer or a function"):
        wb.jit.save(3, tmp_path / "net")
    with pytest.raises(OSError, match="nothing"):
        wb.jit.load(tmp_path / "nothing")
    main = static.Program()
    with static_mode(), static.program_guard(main):
        static.data("x", [1])
        static.save(main, str(tmp_path / "plain"))
        with pytest.raises(InvalidArgument, match="not one of save_inference_model"):
            static.load_inference_model(str(tmp_path / "plain"))
        with pytest.raises(InvalidType, match="feed_vars"):
            static.save_inference_model(str(tmp_path / "x"), ["x"], [], static.Executor())
    wb.jit.save(net, tmp_path / "net", SPEC)
    loaded = wb.jit.load(tmp_path / "net")
    with pytest.raises(InvalidArgument, match="takes 1 inputs"):
        loaded()
    with pytest.raises(InvalidArgument, match="'forward' alone"):
        loaded.program("other")
