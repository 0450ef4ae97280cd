"""Runs a history of random Python in dynamic mode and captured: `python -m tests.fuzz.histories SEED FIRST COUNT`.

What a recorded step gives has to be what dynamic mode gives; or it is refused with a clear error; or a notice says what
is not looked at. A line of JSON is written before a case and after it, see `batches`.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import random
import re
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from tests.fuzz.python_cases import Case, Event, random_case
from workbench.errors import EnforceNotMet

CAPTURED = "capture = wb.jit.capture"
DYNAMIC = "def capture(function):\n    return function"
_SAYS_SO = ("every run sees",)  # notices that name something which is not looked at
_SAYS_SO_LATER = ("may still have been",)  # those of a step that compares itself with a new recording now and then
_CLOSE = 1e-4
_MADE_SMALL = 3  # wrong cases of a process that are looked at again and again

LEFT_OUT: tuple[str, ...] = ()
"""Kinds in which captured steps are known to be wrong today."""


class Outcome:
    """What an event has led to.

    Attributes:
        values: results of a call, and the tensors it may have changed. error: what it raised, if anything.
        says: notices that something is not looked at. says_later: those that earlier calls may have been wrong.
    """

    def __init__(self, values: dict[str, Any], error: Exception | None, notices: list[str]) -> None:
        self.values, self.error = values, error
        self.says = [text for text in notices if any(words in text for words in _SAYS_SO)]
        self.says_later = [text for text in notices if any(words in text for words in _SAYS_SO_LATER)]

    @property
    def is_clear(self) -> bool:
        """Whether what it raised is an error for users."""
        return isinstance(self.error, EnforceNotMet)

    @property
    def raised(self) -> str:
        """What the call raised, if anything, in words."""
        return "" if self.error is None else f"{type(self.error).__name__}: {self.error}"

    def __str__(self) -> str:
        if self.error is None:
            return str({name: np.asarray(value).tolist() for name, value in self.values.items()})
        return "".join(traceback.format_exception(self.error))[-2500:]


class Module:
    """A case's module, as its user would have it: a file that is imported.

    Args:
        case: what is in it. capture: the line that makes its decorator. folder: where the file lies.
    """

    def __init__(self, case: Case, capture: str, folder: Path, number: int) -> None:
        self._name = f"case_{number}"
        file = folder / f"{self._name}.py"
        file.write_text(case.source(capture))
        spec = importlib.util.spec_from_file_location(self._name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[self._name] = module
        module.FILE = str(folder / f"{self._name}.txt")  # type: ignore[attr-defined]
        spec.loader.exec_module(module)
        self._space, self._state = vars(module), case.state

    def run(self, event: Event) -> Outcome:
        """Do what an event says."""
        values: dict[str, Any] = {}
        error = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if event.kind == "call":
                    result = eval(event.code, self._space)
                    values.update(("result" + path, array) for path, array in _arrays(result))
                else:
                    exec(event.code, self._space)
            except Exception as raised:
                error = raised
        values.update(self.state())
        return Outcome(values, error, [str(each.message) for each in caught])

    def state(self) -> dict[str, np.ndarray]:
        """The tensors that calls may change."""
        values: dict[str, np.ndarray] = {}
        for name in self._state:
            try:
                values.update((name + path, array) for path, array in _arrays(eval(name, self._space)))
            except Exception:  # deleted, or something else now
                continue
        return values

    def leave(self) -> None:
        sys.modules.pop(self._name, None)


def _arrays(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _arrays(part, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _arrays(part, f"{path}.{i}")
    elif isinstance(value, wb.Tensor):
        yield path, np.array(value.numpy())
        if value.grad is not None:
            yield f"{path}.grad", np.array(value.grad.numpy())
    else:
        yield path, np.array(0.0 if value is None else value)


@contextmanager
def _as_at_first() -> Iterator[None]:
    """What cases change outside of their modules is put back."""
    import builtins

    ours = {owner: owner.forward for owner in (wb.nn.Linear,)}
    own, environment, absolute = dict(vars(builtins)), dict(os.environ), builtins.abs
    random.seed(1)
    np.random.seed(1)
    wb.seed(1)
    try:
        yield
    finally:
        wb.set_default_dtype("float32")
        for owner, forward in ours.items():
            owner.forward = forward  # type: ignore[method-assign]
        for name in vars(builtins).keys() - own.keys():
            delattr(builtins, name)
        builtins.abs = absolute
        os.environ.clear()
        os.environ.update(environment)
        sys.modules.pop("settings_of_case", None)


def history(case: Case, capture: str, folder: Path, number: int) -> list[Outcome]:
    """What all events have led to, up to the first call that raises something; or what the module itself raised."""
    outcomes: list[Outcome] = []
    with _as_at_first():
        module = Module(case, capture, folder, number)
        try:
            for event in case.events:
                outcomes.append(module.run(event))
                if event.kind == "call" and outcomes[-1].error is not None:
                    break
        finally:
            module.leave()
    return outcomes


def verdict(case: Case, dynamic: list[Outcome], captured: list[Outcome]) -> tuple[str, str]:
    """A word for how two histories compare, and details."""
    if case.varies:
        return _of_chance(dynamic, captured)
    told: list[str] = []
    before: dict[str, Any] = {}
    for i, (event, expected, got) in enumerate(zip(case.events, dynamic, captured, strict=False)):
        told += got.says
        where = f"event {i}: {event.code}"
        if event.kind == "call" and got.error is not None:
            if expected.error is not None:
                return "both raise", type(got.error).__name__
            if not got.is_clear:
                return "UNCLEAR", f"{where}\n{got}"
            after = {name: value for name, value in got.values.items() if name in before}
            if names := _differing(before, after):
                return "CHANGED", f"{where}\nrefused, but it has changed {names}\n{got}"
            return "refused", str(got.error)
        if type(expected.error) is not type(got.error):
            return ("told", "") if told else ("DIFFERS", f"{where}\ndynamic: {expected}\ncaptured: {got}")
        if names := _differing(expected.values, got.values):
            return ("told", told[0]) if told else ("DIFFERS", f"{where}: {names}\ndynamic: {expected}\ncaptured: {got}")
        before = {name: value for name, value in got.values.items() if not name.startswith("result")}
    return "equal", ""


def _of_chance(dynamic: list[Outcome], captured: list[Outcome]) -> tuple[str, str]:
    """Judges steps that give something else in every call: they never give the same for ever."""
    errors = [each for each in captured if each.error is not None]
    if any(each.error is not None for each in dynamic):
        return "both raise", str(dynamic[-1])
    if errors:
        return ("refused", str(errors[0].error)) if errors[0].is_clear else ("UNCLEAR", str(errors[0]))
    if any(each.says for each in captured):
        return "told", captured[0].says[0] if captured[0].says else ""
    seen, wanted = (len({_content(each) for each in outcomes} - {b""}) for outcomes in (captured, dynamic))
    if 2 * seen <= wanted:
        return "FROZEN", f"{wanted} different results of {len(dynamic)} in dynamic mode, {seen} captured"
    return "equal", ""


def _differing(expected: dict[str, Any], got: dict[str, Any]) -> list[str]:
    """What is not equal; a gradient that is not there is one of zeros, for a recorded `clear_grad` leaves none."""
    missing = {
        name for name in expected.keys() ^ got.keys() if not name.endswith(".grad") or np.any({**expected, **got}[name])
    }
    largest = max((_scale(value) for name, value in expected.items() if name.endswith(".grad")), default=0.0)
    both = expected.keys() & got.keys()
    # Gradients that cancel to almost nothing are as exact as the ones they are sums of.
    return sorted(missing) + [
        name for name in both if not _same(expected[name], got[name], largest if name.endswith(".grad") else 0.0)
    ]


def _scale(a: np.ndarray) -> float:
    """The largest finite number of an array."""
    a = np.asarray(a)
    return float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) if a.dtype.kind in "fc" else 0.0


def _same(a: np.ndarray, b: np.ndarray, summand: float = 0.0) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool((a == b).all())
    atol = _CLOSE * _scale(a) + 1e-6 + 1e-5 * summand
    return bool(np.allclose(a, b, rtol=_CLOSE, atol=atol, equal_nan=True))


class Judge:
    """Compares histories of cases, in a folder of its own.

    Args:
        capture: the line that makes the decorator of what is judged.
    """

    def __init__(self, folder: Path, capture: str = CAPTURED) -> None:
        self._folder, self._capture, self._number = folder, capture, 0

    def judged(self, case: Case) -> tuple[str, str, bool]:
        """The verdict, its details, and whether a change between two calls has changed what dynamic mode gives."""
        dynamic, captured = (self._history(case, line) for line in (DYNAMIC, self._capture))
        word, details = verdict(case, dynamic, captured)
        if word in ("DIFFERS", "FROZEN") and (later := self._said_later(case, details)):
            word, details = "told later", later
        return word, details, _changes(case, dynamic)

    def _said_later(self, case: Case, details: str) -> str:
        """What a step says of a call that was wrong when it is called so as often again as it was before."""
        number = int(re.search(r"event (\d+)", f"{details} event 0").group(1))  # type: ignore[union-attr]
        events = case.events[: number + 1]
        longer = replace(case, events=(*events, *[case.events[number]] * (2 * len(events) + 2)))
        outcomes = self._history(longer, self._capture)[number:]
        return next((text for each in outcomes for text in (*each.says_later, each.raised) if text), "")

    def _history(self, case: Case, line: str) -> list[Outcome]:
        self._number += 1
        return history(case, line, self._folder, self._number)

    def smallest(self, case: Case, word: str) -> Case:
        """A case that comes to the same verdict and of which nothing can be left out."""
        while True:
            less = next((each for each in case.smaller() if self._comes_to(each, word)), None)
            if less is None:
                return case
            case = less

    def _comes_to(self, case: Case, word: str) -> bool:
        try:
            return self.judged(case)[0] == word
        except Exception:  # a module that does not run any more
            return False


def _changes(case: Case, dynamic: list[Outcome]) -> bool:
    results: dict[str, bytes] = {}
    for event, outcome in zip(case.events, dynamic, strict=False):
        if event.kind == "call" and outcome.error is None:
            content = _content(outcome)
            if results.setdefault(event.code, content) != content:
                return True
    return False


def _content(outcome: Outcome) -> bytes:
    return b"".join(v.tobytes() for name, v in outcome.values.items() if name.startswith("result"))


def describe(case: Case) -> dict[str, Any]:
    """What is needed to look at a case without this code."""
    return {
        "events": [event.code for event in case.events],
        "step": case.own_source(CAPTURED),
        "source": case.source(CAPTURED),
    }


def main(seed: int, first: int, count: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="captures-"))
    sys.path.insert(0, str(folder))
    np.seterr(all="ignore")
    gc.freeze()  # whoever looks for all tensors there are need not look at what is imported
    try:
        judge, wrong = Judge(folder), 0
        for index in range(first, first + count):
            print(json.dumps({"begins": index}), flush=True)
            case = random_case(seed, index, LEFT_OUT)
            word, _, has_effect = judge.judged(case)
            line: dict[str, Any] = {"index": index, "verdict": word, "changes": has_effect, "kinds": case.kinds}
            if word.isupper():
                small = judge.smallest(case, word) if (wrong := wrong + 1) <= _MADE_SMALL else case
                line |= {"details": judge.judged(small)[1], "case": describe(small)}
            print(json.dumps(line), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
