"""Which rows of a table on parameter servers are kept: the rules `static.nn.sparse_embedding` takes."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument


class TableEntry:
    """A rule for rows of a table."""


class CountFilterEntry(TableEntry):
    """Rows that were read so many times.

    Args:
        count_filter: at least 0.

    Raises:
        InvalidArgument: no such number.

    Example:
        >>> wb.distributed.CountFilterEntry(10).count_filter
        10
    """

    def __init__(self, count_filter: int) -> None:
        if isinstance(count_filter, bool) or not isinstance(count_filter, int) or count_filter < 0:
            raise InvalidArgument(f"CountFilterEntry takes an int of at least 0, got {count_filter!r}")
        self.count_filter = count_filter


class ProbabilityEntry(TableEntry):
    """Rows that are taken in with this probability when they are first read.

    Args:
        probability: above 0, below 1.

    Raises:
        InvalidArgument: no such number.

    Example:
        >>> wb.distributed.ProbabilityEntry(0.1).probability
        0.1
    """

    def __init__(self, probability: float) -> None:
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise InvalidArgument(f"ProbabilityEntry takes a float between 0 and 1, got {probability!r}")
        self.probability = probability


class ShowClickEntry(TableEntry):
    """Rows with counts of shows and clicks, which are in variables of these names.

    Raises:
        InvalidArgument: no strings.

    Example:
        >>> wb.distributed.ShowClickEntry("show", "click").show_name
        'show'
    """

    def __init__(self, show_name: str, click_name: str) -> None:
        names: tuple[Any, Any] = show_name, click_name
        if not all(isinstance(name, str) for name in names):
            raise InvalidArgument(f"ShowClickEntry takes the names of two variables, got {show_name!r}, {click_name!r}")
        self.show_name, self.click_name = show_name, click_name
