"""The variables of the environment that role makers read; what is missing or wrong is told with who sets it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from workbench.errors import InvalidArgument, InvalidForm, NotFound

WITH_SERVERS = "workbench launch --server_num 1 --worker_num 2 script.py"
WITHOUT_SERVERS = "workbench launch -n 2 script.py"


class MissingVariable(NotFound, KeyError):
    """A variable of the environment is not set; Paddle raises KeyError."""

    __str__ = RuntimeError.__str__


class MissingOption(InvalidForm):
    """The same, where Paddle asserts it."""


class RoleVariables:
    """The environment, read for one role maker.

    Args:
        owner: which one. launcher: the command that sets the variables.
    """

    def __init__(self, owner: str, launcher: str) -> None:
        self.owner, self.launcher = owner, launcher

    def text(self, name: str, what: str) -> str:
        """A variable that has to be set.

        Raises:
            MissingVariable: it is not.
        """
        value = os.environ.get(name)
        if value is None:
            raise MissingVariable(self.told(name, what, "not set"))
        return value

    def number(self, name: str, what: str, least: int = 0, default: int | None = None) -> int:
        """A whole number.

        Raises:
            MissingVariable: not set, and there is no default. InvalidArgument: no number, or a smaller one.
        """
        if default is not None and name not in os.environ:
            return default
        value = self.text(name, what)
        if not value.strip().isdecimal() or int(value) < least:
            raise self.wrong(name, what, value)
        return int(value)

    def word(self, name: str, known: Sequence[str], default: str | None = None) -> str:
        """One of a few words.

        Raises:
            MissingVariable: not set, and there is no default. InvalidArgument: another one.
        """
        if default is not None and name not in os.environ:
            return default
        value = self.text(name, " or ".join(known))
        if value not in known:
            raise self.wrong(name, " or ".join(known), value)
        return value

    def endpoints(self, name: str, what: str) -> list[str]:
        """Some `ip:port`, with commas between.

        Raises:
            MissingVariable: not set. InvalidArgument: one is no endpoint, or there twice.
        """
        return self.listed(name, what, self.text(name, what))

    def listed(self, name: str, what: str, value: str) -> list[str]:
        """The endpoints in a value; raises as `endpoints`."""
        listed = [part.strip() for part in value.split(",") if part.strip()]
        bad = next((one for one in listed if not is_endpoint(one)), None)
        if not listed or bad is not None or len(set(listed)) != len(listed):
            raise self.wrong(name, what, value)
        return listed

    def wrong(self, name: str, what: str, value: str) -> InvalidArgument:
        """The error for a value."""
        return InvalidArgument(self.told(name, what, repr(value)))

    def told(self, name: str, what: str, value: str) -> str:
        """A message: the variable, what was expected and what came, and who sets it."""
        return (
            f"{self.owner} reads {name} from the environment\n"
            f"  expected: {what}\n  got:      {value}\n  `{self.launcher}` sets it"
        )


def is_endpoint(text: str) -> bool:
    """Whether a text is `ip:port`."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and int(port) < 65536
