"""Which rows of tables have changed since a trainer last asked: geo-SGD gives those, not whole tables (F-10)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workbench.errors import InvalidArgument, one_of
from workbench.framework.values.rows import Rows
from workbench.parallel.servers.serving.blocks import GEO, ROW_NUMBERS, ROW_VALUES, Duty
from workbench.parallel.servers.serving.values import Values
from workbench.runtime.servers.messages import MAX_BYTES, Message


class RowChanges:
    """Of one server: of each row the last step that changed it.

    A trainer tells up to which step it knows the rows; asking twice gives the same rows, so that an answer may be lost.
    """

    def __init__(self, duty: Duty, values: Values) -> None:
        self._tables = dict(duty.tables) if duty.mode == GEO else {}
        self._values, self._endpoint = values, duty.endpoint
        self._last: dict[str, np.ndarray] = {}
        self._begun = 0

    def begin(self, step: int) -> None:
        """Go on from a state of which nobody has noted what changed before: all rows have, until its step."""
        self._begun, self._last = step, {}

    def note(self, pushed: Mapping[str, np.ndarray | Rows], step: int) -> None:
        """A step was applied."""
        for name, value in pushed.items():
            if name in self._tables and isinstance(value, Rows):
                self._of(self._tables[name])[value.rows] = step

    def asked(self, frame: Message) -> list[str]:
        """The tables of which a request asks for changed rows.

        Raises:
            InvalidArgument: it asks for something else, or does not say since when.
        """
        names, known = frame.names("tables"), {*self._tables.values()}
        if not known.issuperset(names):
            raise InvalidArgument(
                f"server {self._endpoint} tells which rows of {one_of(known) if known else 'no table'} have changed, "
                f"got {one_of(names)}"
            )
        if names:
            frame.number("since")
        return names

    def since(self, frame: Message) -> dict[str, np.ndarray]:
        """The changed rows that a request asks for: numbers and values of each table.

        Raises:
            InvalidArgument: more than a message carries.
        """
        rows = {name: np.flatnonzero(self._of(name) > frame.number("since")) for name in self.asked(frame)}
        nbytes = sum(self._values.rows_nbytes(name, numbers) + numbers.nbytes for name, numbers in rows.items())
        if nbytes > MAX_BYTES:
            raise InvalidArgument(f"rows of {nbytes} bytes have changed; an answer has at most {MAX_BYTES}")
        arrays: dict[str, np.ndarray] = {}
        for name, numbers in rows.items():
            arrays[name + ROW_NUMBERS], arrays[name + ROW_VALUES] = numbers, self._values.rows(name, numbers)
        return arrays

    def _of(self, table: str) -> np.ndarray:
        if table not in self._last:
            self._last[table] = np.full(len(self._values.array(table)), self._begun, np.int64)
        return self._last[table]
