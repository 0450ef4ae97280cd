"""What goes wrong in ranks, raised in the kernel: the first cause, by the name of its rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench import errors
from workbench.errors import EnforceNotMet, ExecutionError, Unavailable

_FOLLOWS = ("PeerFailed", "PeerTimeout", "Aborted", "KeyboardInterrupt")  # of a rank that another one has told


class RankLost(Unavailable):
    """A rank of a cluster has died; `cluster.restart()` starts new ones.

    Attributes:
        rank: which one, None if nobody said.
        how: in words, such as "ended by SIGKILL".
    """

    def __init__(self, rank: int | None, how: str) -> None:
        self.rank, self.how = rank, how
        which = "a rank" if rank is None else f"rank {rank}"
        super().__init__(f"{which} {how}; the others were ended with it. cluster.restart() starts new ranks")


def has_failed(answer: Any) -> bool:
    """Whether a rank has answered with an exception."""
    return answer.ready() and not answer.successful()


def first_cause(answers: Sequence[Any]) -> BaseException:
    """The exception of the rank that failed by itself, not because of another one."""
    failed = {rank: answer.exception() for rank, answer in enumerate(answers) if has_failed(answer)}
    return cause_of({rank: _kind_and_text(error) for rank, error in failed.items()})


def _kind_and_text(error: Any) -> tuple[str, str]:
    return getattr(error, "ename", type(error).__name__), getattr(error, "evalue", str(error))


def cause_of(failed: Mapping[int, Sequence[str]]) -> BaseException:
    """The same, of the kinds and texts of the exceptions of the ranks that have told of one."""
    rank = min(failed, key=lambda each: (failed[each][0] in _FOLLOWS, each))
    return _named(rank, *failed[rank])


def _named(rank: int, kind: str, text: str) -> BaseException:
    """An exception of the kind that the rank has raised, if it is one of ours."""
    known = getattr(errors, kind, None)
    cls = known if isinstance(known, type) and issubclass(known, EnforceNotMet) else ExecutionError
    told = f"rank {rank}: {text}" if cls is known else f"rank {rank}: {kind}: {text}"
    return cls.__new__(cls, told)  # whose text is made: some would make it anew, of parts
