"""Half precision where that is safe, and scaled losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import optimizer
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.notice import Notice
from workbench.framework.program.guard import static_mode
from workbench.nn import functional, initializer

BF16 = {"dtype": "bfloat16"}


@pytest.fixture
def x() -> Any:
    return wb.to_tensor(np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32), stop_gradient=False)


def test_products_are_made_in_half_precision_and_sums_are_not(x: Any) -> None:
    with wb.amp.auto_cast(**BF16):
        product = wb.matmul(x, x)
        assert product.dtype == wb.bfloat16
        assert (product + 1.0).dtype == wb.bfloat16  # as its inputs are
        assert (product + x).dtype == wb.float32  # promoted
        assert product.mean().dtype == functional.softmax(product).dtype == wb.exp(product).dtype == wb.float32
        assert wb.argmax(product).dtype == wb.int64 and product.astype("float64").dtype == wb.float64
    assert wb.matmul(x, x).dtype == wb.float32
    rounded = x.numpy().astype(wb.bfloat16.numpy).astype(np.float64)
    np.testing.assert_allclose(product.numpy().astype(np.float64), rounded @ rounded, rtol=2**-7, atol=1e-2)


def test_level_o2_computes_all_else_in_half_precision(x: Any) -> None:
    with wb.amp.auto_cast(level="O2", **BF16):
        assert (x + x).dtype == functional.relu(x).dtype == wb.bfloat16
        assert wb.sum(x).dtype == wb.float32
    with wb.amp.auto_cast(level="O0", **BF16):
        assert wb.matmul(x, x).dtype == wb.float32
    with wb.amp.auto_cast(enable=False, **BF16):
        assert wb.matmul(x, x).dtype == wb.float32


def test_lists_of_ones_own(x: Any) -> None:
    with wb.amp.auto_cast(custom_white_list={"elementwise_add"}, custom_black_list=["matmul_v2"], **BF16):
        assert (x + x).dtype == wb.bfloat16
        assert wb.matmul(x, x).dtype == wb.float32
    with wb.amp.auto_cast(**BF16), wb.amp.auto_cast(enable=False):
        assert (x + x).dtype == wb.float32


def test_gradients_have_the_dtype_of_the_parameters(x: Any) -> None:
    with wb.amp.auto_cast(**BF16):
        loss = (wb.matmul(x, x) * 2.0).mean()
    loss.backward()
    assert x.grad.dtype == wb.float32
    reference = wb.to_tensor(x.numpy(), stop_gradient=False)
    (wb.matmul(reference, reference) * 2.0).mean().backward()
    np.testing.assert_allclose(x.grad.numpy(), reference.grad.numpy(), atol=2e-2)


def test_float16_has_no_effect_on_a_cpu(x: Any) -> None:
    with pytest.warns(Notice, match="no effect on a CPU"), wb.amp.auto_cast():
        assert wb.matmul(x, x).dtype == wb.float32
    assert (wb.amp.is_float16_supported(), wb.amp.is_bfloat16_supported()) == (False, True)


def parameter(value: Any, dtype: str = "float32") -> Any:
    value = np.asarray(value, dtype)
    return wb.create_parameter(value.shape, dtype, default_initializer=initializer.Assign(value))


def test_a_scaled_loss_gives_the_same_step() -> None:
    plain, scaled = parameter([1.0, -2.0]), parameter([1.0, -2.0])
    for w, scaler in ((plain, None), (scaled, wb.amp.GradScaler(init_loss_scaling=1024.0))):
        opt = optimizer.Momentum(0.1, 0.9, parameters=[w])
        for _ in range(3):
            loss = (w * w).sum()
            if scaler is None:
                loss.backward()
                opt.step()
            else:
                scaler.scale(loss).backward()
                assert w.grad.numpy() == pytest.approx(2048.0 * w.numpy())
                scaler.step(opt)
                scaler.update()
            opt.clear_grad()
    assert np.array_equal(plain.numpy(), scaled.numpy())


def test_gradients_too_small_for_half_precision_are_saved_by_the_factor() -> None:
    """2**-26 is 0 in float16; times 2**14 it is not, and the update is made in float32."""
    w = parameter([1.0], "float16")
    opt = optimizer.SGD(2.0**20, parameters=[w])
    scaler = wb.amp.GradScaler(init_loss_scaling=2.0**14)
    tiny = wb.to_tensor(np.float16([2.0**-13]))
    loss = (w * tiny * tiny).sum()
    scaler.scale(loss.astype("float32")).backward()
    scaler.minimize(opt, loss)
    assert w.numpy().astype(np.float32) == pytest.approx([1 - 2.0**-6])


def test_the_factor_adapts() -> None:
    w = parameter([1.0])
    opt = optimizer.SGD(0.5, parameters=[w])
    scaler = wb.amp.GradScaler(
        init_loss_scaling=8.0, incr_ratio=4.0, decr_ratio=0.25, incr_every_n_steps=2, decr_every_n_nan_or_inf=1
    )
    scales = []
    for factor in (1.0, 1.0, np.inf, 1.0, np.nan):
        before = w.numpy()
        scaler.scale((w * float(factor)).sum()).backward()
        scaler.step(opt)
        scaler.update()
        opt.clear_grad(set_to_zero=False)
        scales.append(float(scaler.state_dict()["scale"][0]))
        assert np.array_equal(before, w.numpy()) is not np.isfinite(factor)
    assert scales == [8.0, 32.0, 8.0, 8.0, 2.0]
    other = wb.amp.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_incr_ratio() == 4.0


def test_unscaled_gradients_may_be_clipped_once() -> None:
    w = parameter([3.0])
    opt = optimizer.SGD(1.0, parameters=[w])
    scaler = wb.amp.GradScaler(init_loss_scaling=16.0)
    scaler.scale((w * 2.0).sum()).backward()
    scaler.unscale_(opt)
    assert w.grad.numpy().tolist() == [2.0]
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
    assert w.numpy().tolist() == [1.0]


def test_a_scaler_that_is_switched_off_passes_things_through() -> None:
    w = parameter([3.0])
    opt = optimizer.SGD(1.0, parameters=[w])
    scaler = wb.amp.GradScaler(enable=False)
    loss = (w * 2.0).sum()
    assert scaler.scale(loss) is loss and not scaler.is_enable() and scaler.state_dict() == {}
    loss.backward()
    scaler.step(opt)
    scaler.update()
    assert w.numpy().tolist() == [1.0]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: wb.amp.auto_cast(level="O3").__enter__(), InvalidArgument, "O0, O1, O2, OD, got 'O3'"),
        (lambda: wb.amp.auto_cast(dtype="float64").__enter__(), InvalidType, "'float16' or 'bfloat16'"),
        (
            lambda: wb.amp.auto_cast(custom_white_list={"a"}, custom_black_list={"a"}).__enter__(),
            InvalidArgument,
            "a is in both",
        ),
        (lambda: wb.amp.GradScaler(incr_ratio=1.0), InvalidArgument, "incr_ratio must be > 1.0"),
        (lambda: wb.amp.GradScaler(decr_ratio=1.0), InvalidArgument, "decr_ratio must be between 0 and 1"),
        (lambda: wb.amp.GradScaler().scale(3.0), InvalidType, "takes a Tensor, got 3.0"),
        (lambda: wb.amp.GradScaler().load_state_dict({"scale": 1}), InvalidArgument, "missing decr_count"),
    ],
)
def test_wrong_input_is_named(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_programs_say_themselves_where_half_precision_begins() -> None:
    with static_mode(), pytest.raises(PreconditionNotMet, match=r"cast\(\)"), wb.amp.auto_cast(**BF16):
        pass
