"""What cannot be recorded is refused, with the line; nothing is left behind."""

import contextlib
import inspect
import random
import re
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import EnforceNotMet, PreconditionNotMet, Unimplemented
from workbench.jit.values.captured_tensor import NeedsValue

kept: list[Any] = []
context = ContextVar("context", default=1.0)
counted = 0


def branching(x: Any) -> Any:
    if x.sum() > 0:  # here
        return x
    return -x


def looping(x: Any) -> Any:
    while bool((x < 9.0).all()):  # here
        x = x * 2
    return x


def printing(x: Any) -> Any:
    print(x)  # here
    return x


def formatting(x: Any) -> Any:
    assert f"{x.mean():.2f}"  # here
    return x


def putting_into_text(x: Any) -> Any:
    assert f"{x} is it"  # here
    return x


def showing(x: Any) -> Any:
    assert str([x])  # here
    return x


def asking(x: Any) -> Any:
    return x * float(x.mean())  # here


def reading(x: Any) -> Any:
    return wb.to_tensor(x.numpy() + 1)  # here


def assigning(x: Any) -> Any:
    x[0] = 1.0  # here
    return x


def adding_in_place(x: Any) -> Any:
    x.add_(x)  # here
    return x


def hooking(x: Any) -> Any:
    (x * 2).register_hook(print)  # here
    return x


def counting(x: Any) -> Any:
    global counted
    counted += 1  # here
    return x * counted


def writing_a_global(x: Any) -> Any:  # here
    globals()["counted_anew"] = 1
    return x * 1.0


def reading_any_global(x: Any) -> Any:
    return x * globals()["count" + "ed" * len(x.shape)]  # here


def looking_up_a_module(x: Any) -> Any:
    return x * sys.modules[__name__].counted  # here


def setting_a_context(x: Any) -> Any:  # here
    context.set(2.0)
    return x * context.get()


def appending(x: Any) -> Any:  # here
    kept.append(x)
    return x * 1.0


def drawing(x: Any) -> Any:  # here
    return x * float(np.random.rand())


def drawing_in_python(x: Any) -> Any:  # here
    return x * random.random()


def going_on(x: Any) -> Any:
    try:
        scale = float(x.mean())  # here
    except Exception:
        scale = 1.0
    return x * scale


def suppressing(x: Any) -> Any:
    with contextlib.suppress(TypeError):
        x = x * int(x.sum())  # here
    return x


FUNCTIONS = [
    branching, looping, printing, formatting, putting_into_text, showing, asking,
    reading, assigning, adding_in_place, hooking,
    counting, writing_a_global, reading_any_global, looking_up_a_module, setting_a_context, appending, drawing,
    drawing_in_python, going_on, suppressing,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_cannot_be_recorded_is_refused_with_the_line(function: Callable[..., Any]) -> None:
    lines, start = inspect.getsourcelines(function)
    line = start + next(i for i, text in enumerate(lines) if text.rstrip().endswith("# here"))
    captured = wb.jit.capture(function)
    with pytest.raises(NeedsValue, match=re.escape(f"{__file__}, line {line}")):
        captured(wb.to_tensor([0.5, 2.0]))
    assert captured.captures == 0


def assigning_inside(x: Any) -> Any:
    y = x * 2
    y[0] = 1.0  # here
    return y


def writing_unrecorded(x: Any) -> Any:
    with wb.no_grad():
        wb.nn.functional.relu_(x)  # here
    return x


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize(
    ("function", "what"),
    [(assigning, "x[...] = value would write in place over an argument of the function"),
     (adding_in_place, "add_ would write in place over an argument of the function"),
     (writing_unrecorded, "relu_ would write in place over an argument of the function"),
     (assigning_inside, "x[...] = value would write in place over a value of the function")],
)  # fmt: skip
def test_writing_in_place_over_what_is_recorded_is_called_that(
    function: Callable[..., Any], what: str, is_leaf: bool
) -> None:
    x = wb.to_tensor([1.0, 2.0], stop_gradient=not is_leaf)
    with pytest.raises(NeedsValue, match=re.escape(what)) as refused:
        wb.jit.to_static(function)(x)
    assert "without writing in place" in str(refused.value) and f"{__file__}, line" in str(refused.value)


def test_a_branch_is_told_of_control_flow() -> None:
    with pytest.raises(NeedsValue, match=re.escape("static.nn.cond")):
        wb.jit.capture(branching)(wb.to_tensor([1.0]))


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
def test_a_tensor_that_leaks_is_of_no_use_afterwards() -> None:
    leaks = [None] * 5000  # more than are looked at

    def step(x: Any) -> Any:
        leaks[0] = y = x * 2
        return y

    wb.jit.capture(step)(wb.to_tensor([1.0]))
    leak: Any = leaks[0]
    with pytest.raises(NeedsValue, match="that is over; have the function return it"):
        leak.numpy()
    with pytest.raises(NeedsValue, match="stood for a value"):
        wb.jit.capture(lambda x: x + leak)(wb.to_tensor([1.0]))
    with pytest.raises(NeedsValue, match="that is over"):
        leak.backward()
    assert "CapturedTensor" in repr(leak)


def test_an_argument_that_wants_a_gradient_is_refused() -> None:
    with pytest.raises(Unimplemented, match=re.escape("jit.to_static")):
        wb.jit.capture(lambda x: x * 2)(wb.to_tensor([1.0], stop_gradient=False))


def test_a_gradient_of_values_that_an_update_has_overwritten_is_refused() -> None:
    w = wb.create_parameter([2, 2], "float32")
    optimizer = wb.optimizer.SGD(0.1, parameters=[w])

    def step(x: Any) -> Any:
        first, second = wb.matmul(x, w).sum(), (wb.matmul(wb.matmul(x, w), w)).sum()
        first.backward()
        optimizer.step()
        second.backward()
        return second

    with pytest.raises(PreconditionNotMet, match=r"matmul_v2.* an update has overwritten"):
        wb.jit.capture(step)(wb.ones([1, 2]))


def test_a_refused_step_leaves_tensors_and_gradients_as_they_were() -> None:
    w = wb.create_parameter([2], "float32")
    (w * 3).sum().backward()
    value, grad = w.numpy(), w.grad
    optimizer = wb.optimizer.Adam(0.1, parameters=[w])

    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return float(loss)

    with pytest.raises(NeedsValue):
        wb.jit.capture(step)(wb.ones([2]))
    assert w.grad is grad and np.array_equal(grad.numpy(), [3.0, 3.0]) and np.array_equal(w.numpy(), value)
    assert np.array_equal((w * 2).numpy(), value * 2)  # dynamic mode is as it was


def test_in_static_mode_there_is_nothing_to_capture() -> None:
    captured, x = wb.jit.capture(lambda x: x * 2), wb.to_tensor([1.0])
    wb.enable_static()
    try:
        with pytest.raises(PreconditionNotMet, match="disable_static"):
            captured(x)
    finally:
        wb.disable_static()


def test_a_message_names_what_it_is_about() -> None:
    with pytest.raises(EnforceNotMet, match=r"expand's shape takes an int, got CapturedTensor .*float32"):
        wb.jit.to_static(lambda x: x.expand([x.sum(), 3]))(wb.ones([1, 3]))


@pytest.mark.parametrize("wrong", [3, "step"])
def test_only_functions_are_captured(wrong: Any) -> None:
    with pytest.raises(EnforceNotMet, match="takes a function"):
        wb.jit.capture(wrong)


CLEARED: dict[str, Callable[[Any], None]] = {
    "made zero": lambda w: w.clear_grad(),
    "made none": lambda w: w.clear_gradient(set_to_zero=False),
    "set to none": lambda w: setattr(w, "grad", None),
    "replaced": lambda w: setattr(w, "grad", wb.ones([2])),
}


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
@pytest.mark.parametrize("clear", CLEARED.values(), ids=CLEARED)
@pytest.mark.parametrize("refusal", ["while it is recorded", "behind it", "at a check"])
def test_a_refused_call_leaves_gradients_from_before(clear: Callable[[Any], None], refusal: str) -> None:
    w = wb.create_parameter([2], "float32")
    calls = []

    @wb.jit.capture
    def step(x: Any) -> Any:
        clear(w)
        loss = (w * x).sum()
        loss.backward()
        calls.append(0) if refusal == "behind it" else None
        if refusal == "while it is recorded" and loss > 0:
            loss = loss * 1.0
        return loss * (time.monotonic_ns() % 1e9 if refusal == "at a check" else 1.0)

    def fed(value: float) -> Any:
        return wb.to_tensor(np.full(2, value, np.float32))

    (w * fed(3.0)).sum().backward()
    with pytest.raises(wb.jit.NeedsValue):
        for _ in range(4):  # a check comes with the second run of a recording at the latest
            gradient, values = w.grad, w.grad.numpy().tolist()
            step(fed(7.0))
    assert w.grad is gradient and w.grad.numpy().tolist() == values


def test_clipping_and_scaling_by_hand_point_to_what_is_recorded() -> None:
    net = wb.nn.Linear(2, 1)
    optimizer, scaler = wb.optimizer.SGD(0.1, parameters=net.parameters()), wb.amp.GradScaler()

    def clipping(x: Any) -> None:
        net(x).sum().backward()
        wb.nn.utils.clip_grad_norm_(net.parameters(), 1.0)

    def clipping_values(x: Any) -> None:
        net(x).sum().backward()
        wb.nn.utils.clip_grad_value_(net.parameters(), 1.0)

    def scaling(x: Any) -> None:
        scaler.scale(net(x).sum()).backward()
        scaler.step(optimizer)

    for function, advice in ((clipping, "grad_clip"), (clipping_values, "grad_clip"), (scaling, "bfloat16")):
        with pytest.raises(NeedsValue) as refused:
            wb.jit.capture(function)(wb.ones([1, 2]))
        assert advice in refused.value.__notes__[-1]
        assert net.weight.grad is None
