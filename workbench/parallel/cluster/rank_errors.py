"""What goes wrong in ranks, raised in the kernel: the first cause, by the name of its rank."""

from __future__ import annotations

from collections.abc import Sequence
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
        super().__init__(
            f"{which} {how}; the others were ended with it. cluster.restart() starts new ranks, and "
            "wb.train(…, checkpoint=…) goes on from the last checkpoint"
        )


def has_failed(answer: Any) -> bool:
    """Whether a rank has answered with an exception."""
    return answer.ready() and not answer.successful()


def first_cause(answers: Sequence[Any]) -> BaseException:
    """The exception of the rank that failed by itself, not because of another one."""
    failed = [(rank, answer.exception()) for rank, answer in enumerate(answers) if has_failed(answer)]
    rank, error = min(failed, key=lambda each: (getattr(each[1], "ename", "") in _FOLLOWS, each[0]))
    return _named(rank, error)


def _named(rank: int, error: Any) -> BaseException:
    """An exception of the kind that the rank has raised, if it is one of ours."""
    kind, text = getattr(error, "ename", type(error).__name__), getattr(error, "evalue", str(error))
    known = getattr(errors, kind, None)
    cls = known if isinstance(known, type) and issubclass(known, EnforceNotMet) else ExecutionError
    told = f"rank {rank}: {text}" if cls is known else f"rank {rank}: {kind}: {text}"
    return cls.__new__(cls, told)  # whose text is made: some would make it anew, of parts
