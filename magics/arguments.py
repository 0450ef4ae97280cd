"""Arguments of magics: a mistake is one line that says what was meant, not a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import parse_argstring

from workbench.errors import did_you_mean


def parse(magic: Callable[..., Any], line: str) -> Any:
    """The arguments in `line`, as attributes.

    Raises:
        UsageError: a missing or unknown argument; an unknown option comes with the closest known one.
    """
    parser = magic.parser  # type: ignore[attr-defined]
    try:
        return parse_argstring(magic, line)
    except UsageError as error:
        hint = _closest_option(parser, line)
        usage = " ".join(parser.format_usage().split()).removeprefix("usage: ").removeprefix("::").strip()
        raise UsageError(f"{error}.{hint}\n  usage: {usage}") from None
    except ValueError as error:  # an open quote
        raise UsageError(f"cannot read the arguments {line!r}: {error}") from None


def options(magic: Callable[..., Any]) -> list[str]:
    """The options a magic knows, `--seed` and the like."""
    return list(magic.parser._option_string_actions)  # type: ignore[attr-defined]


# What scripts take as options, and where a notebook says it.
_ELSEWHERE = {
    "batch-size": "The DataLoader has the batch size, as in DataLoader(data, batch_size=32)",
    "learning-rate": "The optimizer has the learning rate, as in wb.optimizer.Adam(0.01).minimize(loss) in its cell",
    "loss": "The loss is what the optimizer minimizes, in the cell of the program; --fetch shows values",
    "optimizer": "The optimizer is part of the program, as in wb.optimizer.Adam(0.01).minimize(loss) in its cell",
}
_ELSEWHERE |= {"lr": _ELSEWHERE["learning-rate"], "bs": _ELSEWHERE["batch-size"]}


def _closest_option(parser: Any, line: str) -> str:
    known = list(parser._option_string_actions)
    for word in line.split():
        option = word.split("=")[0]
        if option.startswith("--") and option not in known:
            elsewhere = _ELSEWHERE.get(option[2:].replace("_", "-"))
            return f" {elsewhere}." if elsewhere else did_you_mean(option, known)
    return ""
