"""Layer: what becomes a member, how members are named, how a layer is called."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.builders.building import program
from workbench.errors import InvalidArgument, PreconditionNotMet, Unimplemented
from workbench.framework import names

nn = wb.nn


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        self.out = nn.Linear(3, 1)
        self.register_buffer("count", wb.zeros([1]))
        self.register_buffer("scratch", wb.zeros([1]), persistable=False)

    def forward(self, x: Any, factor: float = 1.0) -> Any:
        return self.out(self.encoder(x)) * factor


def parameter(*shape: int) -> Any:
    return wb.create_parameter(list(shape), "float32")


# Members


def test_values_become_members_by_their_kind() -> None:
    layer = nn.Layer()
    layer.w, layer.inner, layer.state, layer.plain = parameter(2), nn.ReLU(), wb.ones([2]), 3
    assert list(layer._parameters) == ["w"] and list(layer._sub_layers) == ["inner"]
    assert list(layer._buffers) == ["state"] and layer.plain == 3
    assert "state" not in layer.state_dict() and "w" in layer.state_dict()  # a buffer that is assigned is not saved


def test_a_member_takes_the_place_of_one_of_another_kind() -> None:
    layer = nn.Layer()
    layer.x = 3
    layer.x = parameter(2)
    layer.x = nn.ReLU()
    assert isinstance(layer.x, nn.ReLU) and "x" not in vars(layer) and not layer._parameters


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda: parameter(2), "assignment to parameter 'x' should be of type Parameter or None, but got|got 'int'"),
        (nn.ReLU, "assignment to sublayer 'x' should be of type Layer or None"),
        (lambda: wb.ones([2]), "assignment to buffer 'x' should be of type Tensor or None"),
    ],
)
def test_a_name_keeps_its_kind(value: Any, said: str) -> None:
    layer = nn.Layer()
    layer.x = value()
    with pytest.raises(TypeError, match=said):
        layer.x = 3
    layer.x = None
    assert layer.x is None and layer.state_dict() == {}
    layer.x = value()  # None keeps the name for one


def test_a_plain_tensor_is_no_parameter() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="parameter 'weight' should be of type Parameter"):
        layer.weight = wb.ones([2, 2])


def test_members_need_a_layer_that_is_initialised() -> None:
    class Early(nn.Layer):
        def __init__(self) -> None:
            self.inner = nn.ReLU()

    with pytest.raises(ValueError, match=r"super\(\).__init__\(\) should be called first"):
        Early()
    assert issubclass(PreconditionNotMet, RuntimeError)


def test_a_member_can_be_deleted_and_an_unknown_one_is_an_attribute_error() -> None:
    net = Net()
    del net.count, net.out
    assert [name for name, _ in net.named_buffers()] == ["scratch"] and list(net._sub_layers) == ["encoder"]
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'out'"):
        _ = net.out
    with pytest.raises(AttributeError):
        del net.nothing
    assert {"encoder", "scratch", "full_name"} <= set(dir(net))


@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_names_of_members(kind: str) -> None:
    layer = nn.Layer()
    add = layer.add_parameter if kind == "parameter" else layer.register_buffer
    make = (lambda: parameter(1)) if kind == "parameter" else (lambda: wb.ones([1]))
    for name, said in (("a.b", "dot"), ("", "empty"), ("train", "exists already")):
        with pytest.raises(KeyError, match=said):
            add(name, make())
    with pytest.raises(TypeError, match="is a string, got int 3"):
        add(3, make())
    with pytest.raises(TypeError, match="should be a"):
        add("x", 3)
    add("x", make())
    add("x", make())  # its own name again
    add("later", None)
    assert layer.later is None and len(layer.state_dict()) == 1


def test_a_parameter_to_be_added_is_no_plain_tensor() -> None:
    with pytest.raises(TypeError, match="should be a Parameter"):
        nn.Layer().add_parameter("x", wb.ones([1]))


def test_sublayers_are_layers() -> None:
    layer = nn.Layer()
    with pytest.raises(TypeError, match="takes a Layer"):
        layer.add_sublayer("x", 3)
    inner = nn.ReLU()
    assert layer.add_sublayer("x", inner) is inner and layer.x is inner


# Parameters


def test_parameters_are_named_after_their_layer_in_both_modes() -> None:
    def parameter_names() -> list[str]:
        layers = [nn.Linear(2, 3), nn.Linear(3, 2), nn.BatchNorm2D(2), nn.PReLU(), nn.Conv1DTranspose(2, 2, 1)]
        return [p.name for layer in layers for p in layer.parameters()]

    with names.guard():
        at_once = parameter_names()
    with program():
        assert parameter_names() == at_once
    assert at_once == [
        "linear_0.w_0", "linear_0.b_0", "linear_1.w_0", "linear_1.b_0", "batch_norm2d_0.w_0", "batch_norm2d_0.b_0",
        "batch_norm2d_0.w_1", "batch_norm2d_0.w_2", "p_re_lu_0.w_0", "conv1d_transpose_0.w_0", "conv1d_transpose_0.b_0",
    ]  # fmt: skip


def test_full_names_count_classes_in_snake_case() -> None:
    with names.guard():
        full_names = [
            layer.full_name() for layer in (nn.BiRNN(nn.GRUCell(1, 1), nn.GRUCell(1, 1)), Net(), nn.Layer("own"))
        ]
    assert full_names == ["bi_rnn_0", "net_0", "own_0"]


def test_create_parameter() -> None:
    with names.guard():
        layer = nn.Layer()
        w = layer.create_parameter([2, 3])
        b = layer.create_parameter([3], is_bias=True, dtype="float64")
        own = layer.create_parameter([1], attr=wb.ParamAttr(name="own", learning_rate=0.5, trainable=False))
    assert (w.name, b.name, own.name) == ("layer_0.w_0", "layer_0.b_0", "own")
    assert w.shape == [2, 3] and b.dtype == "float64" and not b.numpy().any() and w.numpy().any()
    assert own.stop_gradient and own.optimize_attr == {"learning_rate": 0.5}
    assert layer.create_parameter([2], attr=False) is None
    filled = layer.create_parameter([2], default_initializer=nn.initializer.Constant(3.0))
    assert filled.numpy().tolist() == [3.0, 3.0]
    with pytest.raises(InvalidArgument, match="must be known"):
        layer.create_parameter([-1, 2])


def test_create_tensor() -> None:
    with names.guard():
        layer = nn.Layer()
        assert layer.create_tensor(name="t").name == "layer_0.t"
        variable = layer.create_variable(persistable=True, dtype="int64")
    assert variable.persistable and variable.dtype == "int64" and variable.name == "layer_0._generated_var_0"


def test_the_global_initializer_is_used_in_both_modes() -> None:
    initializer = nn.initializer
    initializer.set_global_initializer(initializer.Constant(2.0), initializer.Constant(3.0))
    try:
        layer = nn.Linear(1, 1)
        assert (layer.weight.item(), layer.bias.item()) == (2.0, 3.0)
        own = nn.Linear(1, 1, weight_attr=initializer.Constant(5.0))
        assert own.weight.item() == 5.0
    finally:
        initializer.set_global_initializer(None)
    assert nn.Linear(1, 1).bias.item() == 0.0


# Walking


def test_structured_names() -> None:
    net = Net()
    assert [name for name, _ in net.named_sublayers()] == ["encoder", "encoder.0", "encoder.1", "out"]
    assert [name for name, _ in net.named_sublayers("p", include_self=True)][:2] == ["p", "p.encoder"]
    assert [name for name, _ in net.named_parameters("p")] == [
        "p.encoder.0.weight", "p.encoder.0.bias", "p.out.weight", "p.out.bias"
    ]  # fmt: skip
    assert list(net.named_parameters(include_sublayers=False)) == []
    assert [name for name, _ in net.named_buffers("p")] == ["p.count", "p.scratch"]
    assert [name for name, _ in net.named_children()] == ["encoder", "out"] and list(net.children())[1] is net.out
    assert len(net.parameters()) == 4 and len(net.buffers()) == 2
    assert type(net.sublayers(include_self=True)[0]) is Net


def test_what_is_shared_is_told_once() -> None:
    net = nn.Layer()
    net.a = nn.Linear(2, 2)
    net.b = net.a
    net.c = nn.Linear(2, 2)
    net.c.weight = net.a.weight
    assert [name for name, _ in net.named_parameters()] == ["a.weight", "a.bias", "c.bias"]
    assert [name for name, _ in net.named_sublayers()] == ["a", "c"]
    assert len(list(net.children())) == 2
    seen = {net.a}
    assert [name for name, _ in net.named_sublayers(layers_set=seen)] == ["c"]


def test_apply_visits_children_first() -> None:
    seen: list[str] = []
    net = Net()
    assert net.apply(lambda layer: seen.append(type(layer).__name__)) is net
    assert seen == ["Linear", "ReLU", "Sequential", "Linear", "Net"]


def test_train_and_eval_reach_every_layer() -> None:
    net = Net()
    assert net.training and net.encoder[1].training
    net.eval()
    assert not net.training and not net.encoder[1].training
    net.train()
    assert net.encoder[1].training


# Calling


def test_a_layer_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Layer has no forward\(\)"):
        nn.Layer()(wb.ones([1]))
    assert issubclass(Unimplemented, NotImplementedError)
    with pytest.raises(ValueError, match="no backward"):
        nn.ReLU().backward(1)


def test_hooks_run_in_order_until_they_are_removed() -> None:
    net, told = Net(), []

    def before(layer: Any, inputs: tuple[Any, ...]) -> Any:
        told.append(("before", layer is net, len(inputs)))
        return inputs[0] * 2.0

    def after(layer: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        told.append(("after", layer is net, len(inputs)))
        return output + 1.0

    x = wb.ones([4, 2])
    wanted = net(x * 2.0, factor=3.0).numpy() + 1
    handles = [net.register_forward_pre_hook(before), net.register_forward_post_hook(after)]
    net.register_forward_post_hook(lambda layer, inputs, output: told.append(("looks", True, 1)))
    assert np.array_equal(net(x, factor=3.0).numpy(), wanted)
    assert told == [("before", True, 1), ("after", True, 1), ("looks", True, 1)]
    for handle in handles:
        handle.remove()
        handle.remove()  # once is enough
    assert np.array_equal(net(x * 2.0, factor=3.0).numpy() + 1, wanted) and len(told) == 4


def test_a_hook_that_returns_a_tuple_gives_all_inputs() -> None:
    layer = nn.Bilinear(2, 2, 1)
    layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0], inputs[0]))
    x = wb.ones([1, 2])
    assert layer(x).shape == [1, 1]


def test_a_hook_may_remove_itself() -> None:
    layer, calls = nn.ReLU(), []
    handle = layer.register_forward_pre_hook(lambda *a: (calls.append(1), handle.remove())[2:] or None)
    layer(wb.ones([1]))
    layer(wb.ones([1]))
    assert calls == [1]


def test_gradients_are_cleared() -> None:
    net = Net()
    net(wb.ones([1, 2])).sum().backward()
    assert net.out.bias.grad is not None
    net.clear_gradients()
    assert all(p.grad is None or not p.grad.numpy().any() for p in net.parameters())


def test_running_statistics_have_no_history() -> None:
    layer = nn.BatchNorm1D(2)
    for _ in range(2):
        layer(wb.to_tensor(np.eye(2, dtype=np.float32), stop_gradient=False) * 2.0).sum().backward()
        assert layer._mean.stop_gradient and layer._mean.is_leaf and layer._mean.grad is None
    assert layer._mean.numpy() == pytest.approx([0.19, 0.19], rel=1e-6)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.LSTM(4, 3, 2, direction="bidirect"),
        lambda: nn.RNN(nn.GRUCell(4, 3)),
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2),
        lambda: nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 3)), nn.LayerNorm(3), nn.Dropout(), nn.PReLU()),
    ],
)
def test_a_step_leaves_no_cycles(layer: Any) -> None:
    """What a call and its backward make is freed without the garbage collector."""
    net, x = layer(), wb.rand([2, 5, 4])

    def step() -> None:
        result = net(x)
        (result[0] if isinstance(result, tuple) else result).sum().backward()

    def left() -> int:
        step()
        return gc.collect()

    step()
    gc.collect()
    gc.disable()
    try:
        assert min(left() for _ in range(3)) == 0  # what other tests of this process leave may come in between
    finally:
        gc.enable()


def test_a_net_learns() -> None:
    """Steps along the gradient with nothing but layers, loss and tensors."""
    wb.seed(3)
    net, loss = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)), nn.MSELoss()
    x = wb.to_tensor(np.random.default_rng(0).standard_normal((32, 2)).astype(np.float32))
    y = (x * x).sum(axis=1, keepdim=True)
    losses = []
    for _ in range(60):
        error = loss(net(x), y)
        error.backward()
        with wb.no_grad():
            for p in net.parameters():
                p.set_value(p - p.grad * 0.1)
        net.clear_gradients()
        losses.append(error.item())
    assert losses[-1] < losses[0] / 4
    wb.seed(0)
