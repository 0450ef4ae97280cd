"""Objects that code gets hold of in ways nobody can follow: a change of them is noticed as one of a global is."""

from __future__ import annotations

import functools
import gc
import importlib
import sys
import types
import warnings
from array import array
from collections import ChainMap, UserDict, deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
import pytest

import workbench as wb
from workbench.framework.notice import Notice


class Settings:
    """Something with a factor, and the ways Python has of asking for it."""

    shared = 1.0

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def times(self, x: Any) -> Any:
        return x * self.factor

    def __getitem__(self, key: str) -> float:
        return self.factor

    def __len__(self) -> int:
        return int(self.factor)

    def __enter__(self) -> float:
        return self.factor

    def __exit__(self, *raised: Any) -> None:
        pass


class Slotted:
    __slots__ = ("factor",)


def helped(x: Any, given: Any) -> Any:
    return x * given.factor


def helped_by_method(x: Any, given: Any) -> Any:
    return given.times(x)


def entered(x: Any, given: Any) -> Any:
    with given as factor:
        return x * factor


def keyword(x: Any, *, factor: float = 1.0) -> Any:
    return x * factor


def slotted() -> Any:
    given = Slotted()
    given.factor = 1.0
    return given


def changed(given: Any, factor: float) -> None:
    given.factor = factor


class Hidden:
    """Whose attributes are somewhere else."""

    def __init__(self) -> None:
        self.__dict__["_kept"] = {"factor": 1.0}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_kept"][name]
        except KeyError:
            raise AttributeError(name) from None


def module_with(**content: Any) -> Any:
    module = types.ModuleType("module_of_a_test")
    vars(module).update(content)
    sys.modules["module_of_a_test"] = module
    return module


def hidden_in_a_library() -> Any:
    """As if that class had been installed: nobody reads its code."""
    namespace = {**globals(), "__file__": "/lib/site-packages/hidden.py"}
    hook = types.FunctionType(Hidden.__getattr__.__code__, namespace)
    return type("HiddenInALibrary", (), {"__init__": Hidden.__init__, "__getattr__": hook})()


def imported_inside(x: Any, given: Any) -> Any:
    from module_of_a_test import factor  # type: ignore[import-not-found]

    return x * factor


class Cached(Settings):
    @functools.cached_property
    def half(self) -> float:
        return self.factor / 2


def emptied(given: Any, factor: float) -> None:
    if given.factor != factor:
        given.factor = factor
        vars(given).pop("half", None)


HELD, OTHER = Settings(), Settings()
factor_here = 1.0

World = tuple[Callable[[Any], Any], Callable[[float], Any]]  # a function, and what changes the factor it reads


def world(
    function: Callable[[Any, Any], Any],
    make: Callable[[], Any] = Settings,
    change: Callable[[Any, float], Any] = changed,
) -> Callable[[], World]:
    def begin() -> World:
        given = make()
        return lambda x: function(x, given), functools.partial(change, given)

    return begin


METHODS: dict[float, Any] = {2.0: lambda own, x: x * 2.0, 3.0: lambda own, x: x * 3.0}
CODES: dict[float, Any] = {2.0: (lambda x: x * 2.0).__code__, 3.0: (lambda x: x * 3.0).__code__}  # as autoreload sets
WORLDS = {
    "argument of another function": world(helped),
    "method of it": world(helped_by_method),
    "slot": world(helped, slotted),
    "namespace": world(helped, lambda: types.SimpleNamespace(factor=1.0)),
    "entry of a list": world(lambda x, g: x * g[0].factor, lambda: [Settings()], lambda g, k: changed(g[0], k)),
    "bound by partial": world(
        lambda x, p: p(x), lambda: functools.partial(lambda g, x: x * g.factor, Settings()),
        lambda p, k: changed(p.args[0], k),
    ),
    "getattr": world(lambda x, g: x * getattr(g, "factor")),  # noqa: B009
    "x[...]": world(lambda x, g: x * g["factor"]),
    "len": world(lambda x, g: x * float(len(g))),
    "with": world(entered),
    "class": world(
        helped, lambda: type("Own", (), {"factor": 1.0})
    ),
    "deque": world(lambda x, d: x * d[-1], lambda: deque([1.0], maxlen=1), deque.append),
    "bytes": world(lambda x, b: x * float(b[0]), lambda: bytearray(b"1"), lambda b, k: b.__setitem__(0, int(k))),
    "array": world(lambda x, a: x * a[0], lambda: array("f", [1.0]), lambda a, k: a.__setitem__(0, k)),
    "UserDict": world(lambda x, d: x * d["k"], lambda: UserDict(k=1.0), lambda d, k: d.__setitem__("k", k)),
    "ChainMap": world(lambda x, d: x * d["k"], lambda: ChainMap({}, {"k": 1.0}), lambda d, k: d.maps[1].update(k=k)),
    "method of a class": world(
        helped_by_method, lambda: type("Own", (Settings,), {"times": Settings.times})(),
        lambda g, k: setattr(type(g), "times", METHODS[k]),
    ),
    "code": world(lambda x, f: f(x), lambda: lambda x: x, lambda f, k: setattr(f, "__code__", CODES[k])),
    "__dict__": world(lambda x, g: x * g.__dict__["factor"]),
    "globals": world(lambda x, g: x * globals()["factor_here"], change=lambda g, k: globals().update(factor_here=k)),
    "globals, a name that comes": world(
        lambda x, g: x * globals().get("factor_to_come", 2.0), dict,
        lambda g, k: globals().update(factor_to_come=k) if k == 3.0 else globals().pop("factor_to_come", None),
    ),
    "__getattr__": world(helped, Hidden, lambda g, k: vars(g)["_kept"].update(factor=k)),
    "library's __getattr__": world(helped, hidden_in_a_library, lambda g, k: vars(g)["_kept"].update(factor=k)),
    "weak reference": world(lambda x, r: x * r().factor, lambda: ref(HELD), lambda r, k: changed(r(), k)),
    "another object behind weak references": world(
        lambda x, w: x * w["k"].factor, lambda: WeakValueDictionary(k=HELD),
        lambda w, k: (k == 3.0 and w.update(k=OTHER)) or changed(w["k"], k),
    ),
    "context variable": world(lambda x, c: x * c.get(), lambda: ContextVar("factor"), ContextVar.set),
    "cached property": world(lambda x, g: x * g.half * 2.0, Cached, emptied),
    "cached property that is set": world(
        lambda x, g: x * g.half * 2.0, lambda: Cached(2.0), lambda g, k: k == 3.0 and vars(g).update(half=1.5)
    ),
    "import inside": world(imported_inside, lambda: module_with(factor=1.0)),
    "long list": world(lambda x, g: x * g[900], lambda: [1.0] * 1000, lambda g, k: g.__setitem__(900, k)),
    "optimizer's rate": world(
        lambda x, o: x * o.get_lr(), lambda: wb.optimizer.SGD(1.0, parameters=[wb.create_parameter([1], "float32")]),
        lambda o, k: o.set_lr(k),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORLDS)
def test_a_change_is_noticed(name: str) -> None:
    function, change = WORLDS[name]()
    captured, x = wb.jit.capture(function), wb.to_tensor([1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        for factor in (2.0, 2.0, 3.0):
            change(factor)
            assert captured(x).tolist() == [factor, 2 * factor] == function(x).tolist()
    assert captured.captures == 2


def test_zeros_of_both_signs_are_two_values() -> None:
    given = Settings()
    attribute = wb.jit.capture(lambda x: 1.0 / (x * given.factor))
    argument = wb.jit.capture(lambda x, factor: 1.0 / (x * factor))
    x = wb.to_tensor([1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        for zero, infinity in ((0.0, np.inf), (-0.0, -np.inf)):
            given.factor = zero
            assert attribute(x).item() == argument(x, zero).item() == infinity


def test_what_is_weakly_referred_to_is_not_kept_alive() -> None:
    held = Settings(2.0)
    reference = ref(held)
    captured = wb.jit.capture(lambda x: x * (there.factor if (there := reference()) else 5.0))
    x = wb.to_tensor([1.0])
    assert [captured(x).item() for _ in range(2)] == [2.0, 2.0]
    del held
    gc.collect()
    assert reference() is None
    with pytest.warns(Notice, match="what reference refers to"):
        assert captured(x).item() == 5.0


def test_replaced_defaults_are_noticed() -> None:
    function = types.FunctionType(keyword.__code__, globals(), "keyword")
    function.__kwdefaults__ = {"factor": 2.0}
    captured, x = wb.jit.capture(function), wb.to_tensor([1.0])
    assert captured(x).tolist() == [2.0]
    function.__kwdefaults__ = {"factor": 3.0}
    with pytest.warns(Notice, match="defaults of keyword"):
        assert captured(x).tolist() == [3.0]


def test_another_default_dtype_is_noticed() -> None:
    captured = wb.jit.capture(lambda x: x + wb.ones([1]).astype(wb.get_default_dtype()).sum())
    x = wb.to_tensor([1.0])
    before = str(captured(x).dtype)
    wb.set_default_dtype("float64")
    try:
        with pytest.warns(Notice, match="the default dtype"):
            captured(x)
    finally:
        wb.set_default_dtype("float32")
    assert str(captured(x).dtype) == before and captured.captures == 2


def test_attributes_that_no_code_reads_are_nobodys_business() -> None:
    given = Settings()
    captured = wb.jit.capture(lambda x: helped(x, given))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        for number in range(3):
            given.unread = number
            captured(wb.to_tensor([1.0]))
    assert captured.captures == 1


def numbers() -> Iterator[float]:
    while True:
        yield 2.0


@pytest.mark.parametrize("make", [numbers, lambda: iter([2.0]), lambda: zip([2.0])], ids=["generator", "list", "zip"])
def test_iterators_are_refused(make: Callable[[], Any]) -> None:
    iterator = make()

    def step(x: Any) -> Any:
        return x * next(iterator)

    with pytest.raises(wb.jit.NeedsValue, match=r"iterator is an iterator(.|\n)*test_handed_on.py, line"):
        wb.jit.capture(step)(wb.to_tensor([1.0]))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, __import__("random").Random])
def test_generators_of_ones_own_are_refused(make: Callable[[int], Any]) -> None:
    generator = make(3)
    captured = wb.jit.capture(lambda x: x * float(generator.random()))
    with pytest.raises(wb.jit.NeedsValue, match="changes generator"):
        captured(wb.to_tensor([1.0]))
    quiet = wb.jit.capture(lambda x: x if generator else -x)
    for _ in range(2):
        generator.random()
        quiet(wb.to_tensor([1.0]))
    assert quiet.captures == 1


def test_a_schedule_is_stepped_outside() -> None:
    w = wb.create_parameter([1], "float32")
    schedule = wb.optimizer.lr.StepDecay(0.5, 1)
    sgd = wb.optimizer.SGD(schedule, parameters=[w])

    def step(x: Any) -> Any:
        (w * x).sum().backward()
        sgd.step()
        schedule.step()

    with pytest.raises(wb.jit.NeedsValue, match="changes the schedule of sgd"):
        wb.jit.capture(step)(wb.to_tensor([1.0]))


def test_a_clock_is_told_of() -> None:
    import time

    with pytest.warns(Notice, match=r"time.perf_counter, which gives something else(.|\n)*test_handed_on.py, line"):
        wb.jit.capture(lambda x: x * time.perf_counter())(wb.to_tensor([1.0]))


def test_hooks_of_leaves_see_recorded_gradients() -> None:
    w = wb.to_tensor([1.0, 1.0], stop_gradient=False)
    w.register_hook(lambda g: g * 10)

    @wb.jit.capture
    def step(x: Any) -> Any:
        (w * x).sum().backward()
        (grad,) = wb.grad((w * x).sum(), w)
        total = w.grad + grad
        w.clear_grad()
        return total

    x = wb.to_tensor([1.0, 2.0])
    assert step(x).tolist() == [20.0, 40.0]
    assert step(x).tolist() == [20.0, 40.0]
    handle = w.register_hook(lambda g: g + 1)
    with pytest.warns(Notice, match="other hooks"):
        total = step(x)
    assert total.tolist() == [22.0, 42.0]
    handle.remove()
    assert step(x).tolist() == [20.0, 40.0]
    assert step.captures == 2


_RELATIVE = {
    "from . import settings": "settings.factor",
    "from .settings import factor": "factor",
    "from ..outer import settings": "settings.factor",
    "from ..outer.settings import factor": "factor",
}


@pytest.mark.parametrize("line", _RELATIVE)
def test_modules_of_the_own_package_are_followed(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "package_of_a_test" / "outer"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").touch()
    (inner / "settings.py").write_text("factor = 2.0\n")
    (inner / "code.py").write_text(f"def scaled(x):\n    {line}\n    return x * {_RELATIVE[line]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        code = importlib.import_module("package_of_a_test.outer.code")
        settings = importlib.import_module("package_of_a_test.outer.settings")
        captured, x = wb.jit.capture(code.scaled), wb.to_tensor(np.ones(2, np.float32))
        assert captured(x).numpy().tolist() == [2.0, 2.0]
        settings.factor = 5.0
        with pytest.warns(Notice):
            assert captured(x).numpy().tolist() == [5.0, 5.0]
    finally:
        for name in [name for name in sys.modules if name.startswith("package_of_a_test")]:
            del sys.modules[name]
