"""How Python comes to an attribute or a name: whatever of the way changes, the next call does what Python does."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Iterator
from functools import partial, update_wrapper, wraps
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import pytest

import workbench as wb
from workbench.framework.notice import Notice


class Base:
    factor = 2.0
    inner = SimpleNamespace(factor=2.0)

    def scaled(self, x: Any) -> Any:
        return x * 2.0

    def other(self, x: Any) -> Any:
        return x * 2.0


class Derived(Base):
    def run(self, x: Any) -> Any:
        return self.scaled(x)

    def above(self, x: Any) -> Any:
        return super().other(x)

    def other(self, x: Any) -> Any:
        return x * 7.0


class Doubled(Derived):
    factor = 2.0

    def run(self, x: Any) -> Any:
        return super().run(x)


class Tripled(Doubled):
    def run(self, x: Any) -> Any:
        return x * 3.0


WAY = SimpleNamespace(factor=2.0)


def times_a_global(function: Any) -> Any:
    @wraps(function)
    def inner(x: Any) -> Any:
        return function(x) * WAY.factor

    return inner


def times_an_attribute(function: Any) -> Any:
    @wraps(function)
    def inner(owner: Any, *args: Any) -> Any:
        return function(owner, *args) * owner.factor

    return inner


def handed_through(function: Any) -> Any:
    @wraps(function)
    def inner(*args: Any) -> Any:
        return function(*args)

    return inner


@times_a_global
def decorated(x: Any) -> Any:
    return x * 1.0


class Decorated:
    factor = 2.0

    @times_an_attribute
    def decorated(self, x: Any) -> Any:
        return x * 1.0

    @handed_through
    def behind(self, x: Any) -> Any:
        return x * self.factor


def by_keyword(x: Any, factor: float) -> Any:
    return x * factor


def by_argument(settings: Any, x: Any) -> Any:
    return x * settings.factor


def changed_partial(scaled: Any) -> Any:
    return lambda x: scaled(x), lambda: scaled.keywords.update(factor=3.0)


def changed_argument(settings: Any) -> Any:
    scaled = update_wrapper(partial(by_argument, settings), by_argument)
    return lambda x: scaled(x), lambda: setattr(settings, "factor", 3.0)


def changed_way(settings: Any) -> Any:
    factor_of = attrgetter("inner.factor")
    return lambda x: x * factor_of(settings), lambda: setattr(settings, "inner", SimpleNamespace(factor=3.0))


class Scale:
    """A descriptor."""

    def __init__(self) -> None:
        self.factor = 2.0

    def __get__(self, instance: Any, owner: type) -> float:
        return self.factor * getattr(instance, "times", 1.0)


class Described:
    scale = Scale()


class Tagged(str):
    factor = 2.0


class Count(int):
    factor = 2.0


class Net(wb.nn.Layer):
    def forward(self, x: Any) -> Any:
        return x * 2.0


class DeepNet(Net):
    def forward(self, x: Any) -> Any:
        return super().forward(x)


class Slotted:
    __slots__ = ("factor",)


def tripled(*given: Any) -> Any:
    return given[-1] * 3.0


def by_a_name_that_comes(x: Any) -> Any:
    try:
        return x * factor_that_comes  # type: ignore[name-defined]
    except NameError:
        return x * 2.0


def by_a_builtin(x: Any) -> Any:
    return x * float(abs(-2.0))


def of(kind: type[Base]) -> type[Any]:
    """A class of a test's own, so that changes are nobody else's."""
    return type(kind.__name__, (kind,), {})


World = tuple[Callable[[Any], Any], Callable[[], Any]]  # a function, and what changes what it comes to


def instance(
    read: Callable[[Any, Any], Any], change: Callable[[Any], Any], kind: type = Doubled
) -> Callable[[], World]:
    def begin() -> World:
        subject = of(kind)() if kind is not Slotted else Slotted()
        return lambda x: read(subject, x), lambda: change(subject)

    return begin


def layer(make: Callable[[], Any], change: Callable[[Any], Any]) -> Callable[[], World]:
    def begin() -> World:
        net = make()
        return lambda x: net(x), lambda: change(net)

    return begin


def own_net() -> Any:
    return type("OwnNet", (DeepNet,), {"forward": DeepNet.forward})()


def deep_net() -> Any:
    middle = type("Middle", (Net,), {"forward": lambda self, x: x * 2.0})

    class Own(middle):  # type: ignore[misc,valid-type]
        def forward(self, x: Any) -> Any:
            return super().forward(x)

    return Own()


WORLDS: dict[str, Callable[[], World]] = {
    "attribute over a class default": instance(lambda s, x: x * s.factor, lambda s: setattr(s, "factor", 3.0)),
    "attribute of a subclass": instance(lambda s, x: x * s.factor, lambda s: setattr(type(s), "factor", 3.0)),
    "attribute of a base": instance(lambda s, x: x * s.factor, lambda s: setattr(type(s), "factor", 3.0), Base),
    "attribute of an attribute of a class": instance(
        lambda s, x: x * s.inner.factor, lambda s: setattr(type(s), "inner", SimpleNamespace(factor=3.0))
    ),
    "getattr with a default": instance(
        lambda s, x: x * getattr(s, "extra", 2.0), lambda s: setattr(s, "extra", 3.0)
    ),
    "getattr with a default, of the class": instance(
        lambda s, x: x * getattr(s, "extra", 2.0), lambda s: setattr(type(s), "extra", 3.0)
    ),
    "hasattr": instance(lambda s, x: x * (3.0 if hasattr(s, "extra") else 2.0), lambda s: setattr(s, "extra", 0)),
    "slot that is filled": instance(
        lambda s, x: x * getattr(s, "factor", 2.0), lambda s: setattr(s, "factor", 3.0), Slotted
    ),
    "computed name": instance(lambda s, x: x * getattr(s, "w" + str(1), 2.0), lambda s: setattr(s, "w1", 3.0)),
    "missing attribute": instance(
        lambda s, x: x * s.__dict__.get("late", 2.0), lambda s: setattr(s, "late", 3.0)
    ),
    "method of the instance": instance(lambda s, x: s.run(x), lambda s: setattr(s, "run", tripled)),
    "method that a method calls": instance(lambda s, x: s.run(x), lambda s: setattr(s, "scaled", tripled)),
    "method of the class": instance(lambda s, x: s.run(x), lambda s: setattr(type(s), "scaled", tripled)),
    "super, of the same name": instance(lambda s, x: s.run(x), lambda s: patch(Derived, "run")),
    "super, of another name": instance(lambda s, x: s.above(x), lambda s: patch(Base, "other")),
    "class": instance(lambda s, x: s.run(x), lambda s: setattr(s, "__class__", of(Tripled))),
    "descriptor": lambda: (lambda x: x * DESCRIBED.scale, lambda: patch(Described.__dict__["scale"], "factor", 3.0)),
    "what a descriptor looks at": lambda: (lambda x: x * DESCRIBED.scale, lambda: patch(DESCRIBED, "times", 1.5)),
    "attribute of a text": lambda: (lambda x: x * TEXT.factor, lambda: patch(TEXT, "factor", 3.0)),
    "attribute of a number": lambda: (lambda x: x * NUMBER.factor, lambda: patch(NUMBER, "factor", 3.0)),
    "another text that is equal": lambda: (
        lambda x: x * SPACE.text.factor, lambda: patch(SPACE, "text", tagged_with(3.0)),
    ),
    "global that comes": lambda: (by_a_name_that_comes, lambda: patch(MODULE, "factor_that_comes", 3.0)),
    "builtin that comes": lambda: (by_a_name_that_comes, lambda: patch(builtins, "factor_that_comes", 3.0)),
    "global over a builtin": lambda: (by_a_builtin, lambda: patch(MODULE, "abs", lambda number: 3.0)),
    "builtin": lambda: (by_a_builtin, lambda: patch(builtins, "abs", lambda number: 3.0)),
    "what a decorator looks at": lambda: (decorated, lambda: patch(WAY, "factor", 3.0)),
    "what a decorator of a method looks at": instance(
        lambda s, x: s.decorated(x), lambda s: setattr(s, "factor", 3.0), Decorated
    ),
    "what a method behind a decorator looks at": instance(
        lambda s, x: s.behind(x), lambda s: setattr(s, "factor", 3.0), Decorated
    ),
    "keyword of a partial": lambda: changed_partial(partial(by_keyword, factor=2.0)),
    "argument of a partial that says what it wraps": lambda: changed_argument(SimpleNamespace(factor=2.0)),
    "way of an attrgetter": lambda: changed_way(SimpleNamespace(inner=SimpleNamespace(factor=2.0))),
    "forward of a layer": layer(Net, lambda net: setattr(net, "forward", tripled)),
    "forward of a class": layer(own_net, lambda net: setattr(type(net), "forward", tripled)),
    "forward of a base": layer(deep_net, lambda net: setattr(type(net).__mro__[1], "forward", tripled)),
    "class of a layer": layer(Net, lambda net: setattr(net, "__class__", type("N", (Net,), {"forward": tripled}))),
    "forward of a layer of ours": layer(wb.nn.Identity, lambda net: setattr(net, "forward", tripled)),
    "forward of a class of ours": layer(wb.nn.Identity, lambda net: patch(wb.nn.Identity, "forward", tripled)),
}  # fmt: skip

DESCRIBED, TEXT, NUMBER, SPACE = Described(), Tagged("text"), Count(3), SimpleNamespace(text=Tagged("text"))
MODULE = __import__("sys").modules[__name__]
_patches: list[Callable[[], Any]] = []


def tagged_with(factor: float) -> Tagged:
    text = Tagged("text")
    text.factor = factor
    return text


def patch(owner: Any, name: str, value: Any = tripled) -> None:
    """Set an attribute until the test is over."""
    before = vars(owner).get(name)
    is_there = name in vars(owner)
    setattr(owner, name, value)
    _patches.append(lambda: setattr(owner, name, before) if is_there else delattr(owner, name))


@pytest.fixture(autouse=True)
def unpatched() -> Iterator[None]:
    yield
    while _patches:
        _patches.pop()()


@pytest.mark.parametrize("name", WORLDS)
def test_a_change_is_followed_at_once(name: str) -> None:
    function, change = WORLDS[name]()
    captured, x = wb.jit.capture(function), wb.ones([1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        before = function(x).item()
        assert [captured(x).item() for _ in range(2)] == [before] * 2
    change()
    assert function(x).item() == 1.5 * before or before == 1.0
    with pytest.warns(Notice, match="recorded again"):
        assert (
            captured(x).item() == function(x).item() != before
        )  # the third call, in front of which nothing is checked
    assert captured(x).item() == function(x).item() and captured.captures == 2


def conv() -> Any:
    return wb.nn.Conv2D(1, 1, 3, weight_attr=wb.nn.initializer.Constant(1.0))


OPTIONS: dict[str, tuple[Callable[[], Any], list[int], Callable[[Any], Any]]] = {
    "a list": (conv, [1, 1, 6, 6], lambda net: net._stride.__setitem__(0, 2)),
    "another list": (conv, [1, 1, 6, 6], lambda net: setattr(net, "_stride", [2, 2])),
    "a number": (conv, [1, 1, 6, 6], lambda net: setattr(net, "_padding", 1)),
    "a function": (
        lambda: wb.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), [1, 2, 4],
        lambda net: setattr(net, "activation", wb.nn.functional.sigmoid),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_of_layers_are_followed(kind: str) -> None:
    make, shape, change = OPTIONS[kind]
    net, x = make(), wb.ones(shape)
    step = wb.jit.capture(lambda x: net(x))
    step(x), step(x)
    change(net)
    with pytest.warns(Notice, match="recorded again"):
        after = step(x)
    assert after.shape == net(x).shape and after.numpy() == pytest.approx(net(x).numpy(), rel=1e-5)


def shorter(optimizer: Any, w: Any) -> None:
    optimizer._grad_clip.clip_norm = 0.5


def appended(optimizer: Any, w: Any) -> None:
    optimizer._groups.parameters.append(w)


def decayed(optimizer: Any, w: Any) -> None:
    optimizer._regularizer = wb.regularizer.L2Decay(0.5)


def quicker(optimizer: Any, w: Any) -> None:
    optimizer._momentum = 0.25


@pytest.mark.parametrize("change", [shorter, appended, decayed, quicker])
def test_options_of_optimizers_are_followed(change: Callable[[Any, Any], None]) -> None:
    def trained(record: Callable[..., Any]) -> list[float]:
        first, second = (
            wb.create_parameter([1], "float32", default_initializer=wb.nn.initializer.Constant(4.0)) for _ in range(2)
        )
        clip = wb.nn.ClipGradByGlobalNorm(1.0)
        optimizer = wb.optimizer.Momentum(0.5, 0.5, parameters=[first], grad_clip=clip)

        def run(x: Any) -> Any:
            loss = (first * second * x).sum()
            loss.backward()
            optimizer.step()
            first.clear_grad(), second.clear_grad()
            return loss

        step, x = record(run), wb.ones([1])
        step(x), step(x)
        change(optimizer, second)
        return [step(x).item(), step(x).item(), first.item(), second.item()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        captured = trained(wb.jit.capture)
    assert captured == pytest.approx(trained(lambda run: run), rel=1e-5)


def test_gradients_that_python_looks_at() -> None:
    w, x = wb.to_tensor([1.0, 2.0], stop_gradient=False), wb.ones([2])

    def step(x: Any) -> Any:
        return x if w.grad is None else x * w.grad

    captured = wb.jit.capture(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        for grad in (None, None, wb.full([2], 3.0), wb.full([2], 4.0), None, wb.full([2], 5.0)):
            w.grad = grad
            assert captured(x).tolist() == step(x).tolist()
