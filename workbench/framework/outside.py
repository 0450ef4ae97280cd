"""Telling what came from outside - a signal handler, another thread - from what the code it interrupted raised."""

from __future__ import annotations

import inspect
import signal
from opcode import opmap
from types import CodeType, FrameType, TracebackType
from typing import Any

_PAUSING = {opmap[name] for name in ("RESUME", "JUMP_BACKWARD")}  # where a thread is given its exception
_CALLING = {opmap.get(name) for name in ("PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX")}  # and behind C code
_BY_C = MemoryError, StopIteration, LookupError, ArithmeticError  # what a function in C raises without a word
_TRIES = 3  # a class that refuses does so every time
_STUB = 8  # bytes at most of the code that a frame of C code pretends to have


def is_from_outside(error: BaseException) -> bool:
    """Whether an exception belongs to no code it came up in.

    A signal handler is known by its code or, once another one has been set, by being called with the frame it
    interrupts; what `PyThreadState_SetAsyncExc` sends, by coming up where nothing was raised, as its class makes it.
    """
    codes = {code for number in signal.valid_signals() if (code := _code_of(signal.getsignal(number))) is not None}
    trace = last = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes or _was_given_its_caller(trace.tb_frame):
            return True
        trace, last = trace.tb_next, trace
    return last is not None and _was_sent(error, last)


def _code_of(handler: Any) -> CodeType | None:
    """The code of the function behind a handler: of a method, of an object that can be called, of a partial."""
    for _ in range(8):
        if (code := getattr(handler, "__code__", None)) is not None:
            return code
        handler = getattr(handler, "func", None) or type(handler).__dict__.get("__call__")
    return None


def _was_given_its_caller(frame: FrameType) -> bool:
    if frame.f_back is None:
        return False
    code = frame.f_code
    extra = bool(code.co_flags & inspect.CO_VARARGS)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + extra]
    given = [frame.f_locals[name] for name in names if name in frame.f_locals]
    if extra and given and isinstance(given[-1], tuple):
        given += given[-1]
    return any(one is frame.f_back for one in given)


def _was_sent(error: BaseException, trace: TracebackType) -> bool:
    code, at = trace.tb_frame.f_code.co_code, trace.tb_lasti
    if at < 0 or (len(code) <= _STUB and opmap["RAISE_VARARGS"] in code[::2]):
        return False
    if code[at] not in _PAUSING and (code[at] not in _CALLING or isinstance(error, _BY_C)):
        return False
    return _is_as_made(error)


def _is_as_made(error: BaseException) -> bool:
    """Whether it says what its class says of itself: who sends one gives no more than the class."""
    for _ in range(_TRIES):
        try:
            return bool(type(error)().args == error.args)
        except Exception:  # the class takes more, or another one has just been sent
            continue
    return False


def disable_signal_handler() -> None:
    """Nothing to do: no handlers of signals are installed but for the length of a step.

    Example:
        >>> wb.disable_signal_handler()
    """
