"""Where the ranks of a cluster stand, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from workbench.framework.text.printable import escape

TITLES = {"step": "steps here"}  # of columns that are not called like their field


class Rank(NamedTuple):
    """A rank: which, on which machine and as which process, with how many devices, how far, and what it does.

    Its `step` counts those it has made since the program came: of a run that goes on from a checkpoint, those after it.
    """

    rank: int
    host: str
    pid: int
    devices: int
    step: int
    state: str
    program: str


class Ranks:
    """The ranks of a cluster, in order; shown as a table."""

    def __init__(self, ranks: Iterable[Rank]) -> None:
        self._ranks = tuple(ranks)

    @classmethod
    def told(cls, answers: Iterable[Mapping[str, Any]]) -> Ranks:
        """Of what the ranks say of themselves."""
        ordered = sorted(answers, key=lambda answer: answer["rank"])
        return cls(Rank(**{field: answer[field] for field in Rank._fields}) for answer in ordered)

    def lost(self, rank: int | None, how: str) -> Ranks:
        """As they were when one died."""
        return Ranks(
            known._replace(
                state=how if known.rank == rank else f"ended with rank {rank}" if rank is not None else "gone"
            )
            for known in self._ranks
        )

    def __getitem__(self, rank: int) -> Rank:
        return self._ranks[rank]

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[Rank]:
        return iter(self._ranks)

    def __repr__(self) -> str:
        rows = [_titles(), *(tuple(map(str, rank)) for rank in self._ranks)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(_line(row, widths) for row in rows)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in _titles())
        body = "".join(f"<tr>{''.join(f'<td>{escape(str(v))}</td>' for v in rank)}</tr>" for rank in self._ranks)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _titles() -> tuple[str, ...]:
    return tuple(TITLES.get(field, field) for field in Rank._fields)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
