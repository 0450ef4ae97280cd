"""Sequential, LayerList, LayerDict, ParameterList."""

from __future__ import annotations

from typing import Any

import pytest

import workbench as wb

nn = wb.nn


def kinds(layers: Any) -> list[str]:
    return [type(layer).__name__ for layer in layers]


def keys(layers: Any) -> list[str]:
    return list(layers._sub_layers)


def test_sequential() -> None:
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
    assert kinds(net) == ["ReLU", "Tanh", "Sigmoid"] and len(net) == 3 and keys(net) == ["0", "1", "2"]
    assert isinstance(net[-1], nn.Sigmoid) and net["1"] is net[1] and kinds(net[1:]) == ["Tanh", "Sigmoid"]
    assert isinstance(net[:1], nn.Sequential)
    net[1] = nn.ReLU()
    del net[0]
    assert kinds(net) == ["ReLU", "Sigmoid"] and keys(net) == ["1", "2"]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        _ = net[5]


def test_sequential_of_names() -> None:
    net = nn.Sequential(("a", nn.ReLU()), ["b", nn.Tanh()])
    assert keys(net) == ["a", "b"] and net["b"] is net[1] and net.a is net[0]
    net["b"] = nn.ReLU()
    assert kinds(net) == ["ReLU", "ReLU"]


@pytest.mark.parametrize("wrong", [3, lambda x: x, ("a", 3), None])
def test_sequential_takes_layers(wrong: Any) -> None:
    with pytest.raises(TypeError, match="Sequential takes layers"):
        nn.Sequential(nn.ReLU(), wrong)


def test_layer_list() -> None:
    layers = nn.LayerList([nn.ReLU(), nn.Tanh()])
    assert layers.append(nn.Sigmoid()) is layers and layers.extend([nn.ReLU()]) is layers
    layers.insert(0, nn.Softmax())
    assert kinds(layers) == ["Softmax", "ReLU", "Tanh", "Sigmoid", "ReLU"] and keys(layers) == list("01234")
    layers.insert(-1, nn.Mish())
    assert kinds(layers)[-2:] == ["Mish", "ReLU"]
    del layers[0]
    assert kinds(layers) == ["ReLU", "Tanh", "Sigmoid", "Mish", "ReLU"] and keys(layers) == list("01234")
    del layers[1:3]
    assert kinds(layers) == ["ReLU", "Mish", "ReLU"] and keys(layers) == list("012")
    layers[-1] = nn.Tanh()
    assert isinstance(layers[2], nn.Tanh) and kinds(layers[1:]) == ["Mish", "Tanh"]
    assert isinstance(layers[1:], nn.LayerList)
    for act in (lambda: layers[3], lambda: layers.insert(9, nn.ReLU()), lambda: layers.__delitem__(-4)):
        with pytest.raises(IndexError, match="out of range"):
            act()
    for act in (lambda: layers.append(3), lambda: layers.extend([nn.ReLU(), 3]), lambda: nn.LayerList([3])):
        with pytest.raises(TypeError, match="LayerList takes layers, got int 3"):
            act()
    assert len(layers) == 3  # nothing of a list that is refused is taken
    with pytest.raises(NotImplementedError):
        layers(1)


def test_layer_dict() -> None:
    layers = nn.LayerDict({"b": nn.ReLU(), "a": nn.Tanh()})
    assert list(layers) == list(layers.keys()) == ["b", "a"] and len(layers) == 2
    assert "a" in layers and "c" not in layers and isinstance(layers["a"], nn.Tanh)
    layers["c"] = nn.Sigmoid()
    layers.update([("a", nn.Mish()), ("d", nn.ReLU())])
    assert kinds(layers.values()) == ["ReLU", "Mish", "Sigmoid", "ReLU"]
    assert isinstance(layers.pop("b"), nn.ReLU)
    del layers["d"]
    assert [name for name, _ in layers.items()] == ["a", "c"]
    layers.update(nn.LayerDict([("e", nn.ReLU())]))
    assert [name for name, _ in layers.named_sublayers()] == ["a", "c", "e"]
    layers.clear()
    assert len(layers) == 0
    for wrong in (lambda: layers.pop("x"), lambda: layers["x"]):
        with pytest.raises(KeyError):
            wrong()
    for value in (3, {"x": 3}, [("x", 3)]):
        with pytest.raises(TypeError, match="LayerDict takes"):
            layers.update(value)
    assert len(layers) == 0


def test_parameter_list() -> None:
    def parameter(size: int) -> Any:
        return wb.create_parameter([size], "float32")

    some = nn.ParameterList([parameter(1), parameter(2)])
    assert some.append(parameter(3)) is some and [p.shape for p in some] == [[1], [2], [3]] and len(some) == 3
    some[-1] = parameter(4)
    assert some[2].shape == [4] and list(some.state_dict()) == ["0", "1", "2"]
    with pytest.raises(IndexError):
        _ = some[3]
    for wrong in (lambda: some.append(3), lambda: some.__setitem__(0, wb.ones([1]))):
        with pytest.raises(TypeError, match="Parameter"):
            wrong()
