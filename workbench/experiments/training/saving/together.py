"""The trainers of a run as the writers of its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from workbench.errors import InvalidArgument, PeerTimeout, Unavailable
from workbench.parallel.groups.writers import GroupWriters
from workbench.runtime.comm.mpi.group import ProcessGroup
from workbench.runtime.comm.mpi.lending import lent_groups

_SAID = 512  # bytes of what a trainer saves that the others are shown


class TrainerWriters(GroupWriters):
    """All trainers make the same saves, one after the other, each at the same step.

    They have a group of their own from the first save until `end`. A save that fails on one of them fails on all; the
    next one begins anew.

    Args:
        world: all processes. patience: seconds they wait for each other.
    """

    def __init__(self, world: ProcessGroup, patience: float) -> None:
        super().__init__(world)
        self._lent, self._patience = lent_groups(world), patience
        self._borrowed: ProcessGroup | None = None

    @contextmanager
    def saving(self, what: str) -> Iterator[None]:
        """One save; what keeps one of them from it the others are told.

        Args:
            what: is saved, the same on all.

        Raises:
            InvalidArgument: they do not save the same; nothing is written.
            PeerTimeout: some of them do not save. PeerFailed: one of them cannot.
        """
        group = self._ready()
        self._require_same(group, what)
        try:
            yield
        except BaseException as error:
            if error is not self.known:
                group.abort(f"{type(error).__name__}: {error}")
            raise

    def choice_of_first(self, text: str, what: str) -> str:
        """What process 0 says, between two saves."""
        self._ready()
        with _by_all():
            return self.told(text, what)

    def end(self) -> None:
        """No save follows for now."""
        if self._borrowed is not None:
            self._lent.give_back(self._borrowed)
            self._borrowed = None

    def _ready(self) -> ProcessGroup:
        """The group, begun anew if the save before has failed."""
        with _by_all():
            if self._borrowed is None:
                self._group = self._borrowed = self._lent.borrow(self._patience)
            self._borrowed.reset(self._patience)
        self.known = None
        return self._borrowed

    def _require_same(self, group: ProcessGroup, what: str) -> None:
        text = np.zeros(_SAID, np.uint8)
        said = what.encode()[:_SAID]
        text[: len(said)] = np.frombuffer(said, np.uint8)
        try:
            with _by_all():
                told = group.all_gather(text, names=["what every trainer saves"]).wait()
        except PeerTimeout as error:
            group.abort(f"{type(error).__name__}: {error}")
            raise
        assert told is not None
        other = next((rank for rank, row in enumerate(told) if row.tobytes() != told[0].tobytes()), None)
        if other is not None:
            texts = [told[rank].tobytes().rstrip(b"\0").decode(errors="replace") for rank in (0, other)]
            raise InvalidArgument(
                f"trainers save a run together, as one folder; {group.member(0)} saves {texts[0]}, "
                f"{group.member(other)} {texts[1]}"
            )


@contextmanager
def _by_all() -> Iterator[None]:
    """Who waits for the others in vain is told that they all save."""
    try:
        yield
    except Unavailable as error:
        error.add_note("a run of several trainers is saved by all of them, at the same step")
        raise
