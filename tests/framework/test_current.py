"""What is in force in the body of a `with` ends with it, whenever Ctrl-C comes."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from workbench import static
from workbench.framework import names

GUARDS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "scope": (lambda: static.scope_guard(static.Scope()), static.global_scope),
    "programs": (lambda: static.program_guard(static.Program(), static.Program()), static.default_startup_program),
    "names": (lambda: names.guard(), lambda: names._current.get()),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Whoever is called back by the garbage collector would take the interrupt, and it would be lost."""
    gc.disable()
    yield
    gc.enable()


def interrupted(n: int, run: Callable[[], Any]) -> bool:
    """Whether Ctrl-C came at the n-th bytecode of anything that is run."""
    left = n

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        if event in ("call", "opcode") and "weakref" not in frame.f_code.co_filename:  # who tells of it and goes on
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("which", GUARDS)
def test_the_outer_one_is_in_force_again_whenever_ctrl_c_comes(which: str) -> None:
    make, get = GUARDS[which]
    outer, seen, n = get(), [], 0

    def run() -> None:
        with make():
            seen.append(get() is not outer)

    while True:
        n += 1
        came = interrupted(n, run)
        assert get() is outer, n
        if not came:
            break
    assert n > 30 and all(seen) and seen


@pytest.mark.parametrize("which", GUARDS)
def test_bodies_within_bodies_stacks_and_functions(which: str) -> None:
    make, get = GUARDS[which]
    outer, guard = get(), make()
    with guard:
        first = get()
        with make():
            assert get() is not first is not outer
        with pytest.raises(ValueError, match="in it"), make():
            raise ValueError("in it")
        assert get() is first
    with guard:
        assert get() is first
    with ExitStack() as stack:
        stack.enter_context(guard)
        assert get() is first
    assert guard(get)() is first and get() is outer


def test_a_scope_that_was_in_force_is_not_kept() -> None:
    scope = static.Scope()
    kept = weakref.ref(scope)
    with static.scope_guard(scope):
        pass
    del scope
    assert kept() is None
