"""State dictionaries: what is in them, what is missing, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import program
from workbench.errors import InvalidType

nn = wb.nn


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1D(3)
        self.register_buffer("count", wb.zeros([1]))
        self.register_buffer("scratch", wb.zeros([1]), persistable=False)

    def forward(self, x: Any) -> Any:
        return self.norm(self.fc(x))


KEYS = ["count", "fc.weight", "fc.bias", "norm.weight", "norm.bias", "norm._mean", "norm._variance"]


def test_what_is_in_it() -> None:
    net = Net()
    state = net.state_dict()
    assert list(state) == KEYS and state["fc.weight"] is net.fc.weight
    assert list(net.to_static_state_dict()) == ["count", "scratch", *KEYS[1:]]
    assert list(net.state_dict(include_sublayers=False)) == ["count"]
    assert list(net.state_dict(structured_name_prefix="p."))[:2] == ["p.count", "p.fc.weight"]
    more: dict[str, Any] = {"own": 1}
    assert net.state_dict(destination=more) is more and list(more) == ["own", *KEYS]


def test_hooks_see_it() -> None:
    net = Net()
    handle = net.register_state_dict_hook(lambda state: {name: state[name] for name in ("count",)})
    assert list(net.state_dict()) == ["count"] and list(net.state_dict(use_hook=False)) == KEYS
    handle.remove()
    assert list(net.state_dict()) == KEYS


@pytest.mark.parametrize("method", ["set_state_dict", "set_dict", "load_dict"])
def test_a_net_takes_over_the_values_of_another(method: str) -> None:
    net, other = Net(), Net()
    other(wb.rand([4, 2]))  # moves the running statistics
    weight = net.fc.weight
    assert getattr(net, method)(other.state_dict()) == ([], [])
    assert net.fc.weight is weight
    for name, tensor in other.state_dict().items():
        assert np.array_equal(net.state_dict()[name].numpy(), tensor.numpy())
    other.fc.weight.set_value(np.zeros((2, 3), np.float32))
    assert weight.numpy().any()  # a copy


def test_arrays_by_the_names_of_the_parameters() -> None:
    net = Net()
    values = {t.name: np.full(t.shape, 2.0, np.float32) for t in net.state_dict().values()}
    assert net.set_state_dict(values, use_structured_name=False) == ([], [])
    assert net.norm._mean.numpy().tolist() == [2.0, 2.0, 2.0]


def test_what_is_missing_or_of_another_shape_is_told_and_left() -> None:
    net = Net()
    before = net.fc.bias.numpy()
    given = {"fc.weight": np.ones((2, 3), np.float32), "fc.bias": np.ones(4, np.float32), "extra": np.ones(1)}
    with pytest.warns(UserWarning, match="Skip loading for") as told:
        missing, unexpected = net.set_state_dict(given)
    assert missing == ["count", "fc.bias", "norm.weight", "norm.bias", "norm._mean", "norm._variance"]
    assert unexpected == ["fc.bias", "extra"]
    texts = [str(w.message) for w in told]
    assert "Skip loading for count. count is not found in the provided dict." in texts
    assert "Skip loading for fc.bias. fc.bias receives a shape [4], but the expected shape is [3]." in texts
    assert net.fc.weight.numpy().all() and np.array_equal(net.fc.bias.numpy(), before)


def test_another_dtype_is_refused_and_nothing_is_changed() -> None:
    net = Net()
    before = net.fc.weight.numpy()
    values = {name: np.ones(t.shape, np.float32) for name, t in net.state_dict().items()}
    values["norm.bias"] = values["norm.bias"].astype(np.float64)
    with pytest.raises(InvalidType, match=r"norm.bias has another dtype\n  expected: float32\n  got:      float64"):
        net.set_state_dict(values)
    assert np.array_equal(net.fc.weight.numpy(), before)


def test_it_takes_a_dictionary() -> None:
    with pytest.raises(InvalidType, match="takes a dictionary"):
        Net().set_state_dict([1])


def test_values_of_a_program_are_in_the_scope() -> None:
    with program() as (main, startup), wb.static.scope_guard(wb.static.Scope()) as _:
        net = nn.Linear(2, 3)
        out = net(wb.static.data("x", [None, 2]))
        wb.static.Executor().run(startup)
        weight = np.arange(6, dtype=np.float32).reshape(2, 3)
        assert net.set_state_dict({"weight": weight, "bias": np.ones(3, np.float32)}) == ([], [])
        got = wb.static.Executor().run(main, feed={"x": np.ones((1, 2), np.float32)}, fetch_list=[out])[0]
    assert got.tolist() == [[4.0, 6.0, 8.0]]


def test_saved_and_loaded(tmp_path: Any) -> None:
    net, other = Net(), Net()
    wb.save(net.state_dict(), str(tmp_path / "net.pdparams"))
    assert other.set_state_dict(wb.load(str(tmp_path / "net.pdparams"))) == ([], [])
    assert np.array_equal(other.fc.weight.numpy(), net.fc.weight.numpy())
