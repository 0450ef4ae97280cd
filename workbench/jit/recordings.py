"""Recordings: what was recorded of one function, for arguments of which kinds; the oldest goes when there are many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence

from workbench.config import get_flag
from workbench.framework.notice import tell
from workbench.jit.recorded_step import RecordedStep
from workbench.jit.values.arguments import Arguments

_MOST = 128  # recordings of one function
_TOLD = 8  # notices that arguments are of another kind once more


class Recordings:
    """Those that were used last, `_MOST` of them and within `FLAGS_plan_cache_mib`.

    Args:
        advice: what a user may do whose arguments are of another kind in every call.
    """

    def __init__(self, advice: str) -> None:
        self._kept: OrderedDict[Hashable, list[RecordedStep]] = OrderedDict()
        self._advice = advice
        self._described: dict[str, str] = {}
        self._varied = 0
        self._has_told = False

    def __iter__(self) -> Iterator[RecordedStep]:
        for steps in list(self._kept.values()):
            yield from list(steps)

    def of(self, key: Hashable) -> Sequence[RecordedStep]:
        """Those for arguments of one kind, the newest first."""
        if key not in self._kept:
            return ()
        self._kept.move_to_end(key)
        return self._kept[key]

    def keep(self, name: str, key: Hashable, step: RecordedStep, given: Arguments) -> None:
        """Keep what was recorded of the function `name` for such arguments, and no more than fit besides."""
        varying = self._varying(given)
        self._described = given.described()
        self._kept.setdefault(key, []).insert(0, step)
        self._kept.move_to_end(key)
        sizes = self._sizes(step)
        limit = get_flag("FLAGS_plan_cache_mib") * 2**20
        count, nbytes = len(sizes), sum(sizes)
        if not self._has_told and (count > _MOST or nbytes > limit):
            self._has_told = True
            tell(
                f"{name} has {count} recordings, which take {nbytes / 2**20:.0f} MiB; from now on the least recently "
                f"used are dropped, and recorded again when they are needed. {_MOST} are kept, within "
                f"FLAGS_plan_cache_mib, {limit >> 20}\n  {varying or 'what it reads from outside changes often'}"
            )
        while count > 1 and (count > _MOST or nbytes > limit):
            nbytes -= sizes[len(sizes) - count]
            count -= 1
            self._drop_oldest()

    def drop(self, step: RecordedStep) -> None:
        """Keep one of them no longer."""
        for key, steps in self._kept.items():
            if step in steps:
                steps.remove(step)
                if not steps:
                    del self._kept[key]
                return

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._kept.values()))
        self.drop(oldest[-1])

    def reason(self, given: Arguments) -> str | None:
        """Why arguments are of another kind than those before; None where that was said often enough."""
        self._varied += 1
        if self._varied > _TOLD:
            return None
        last = "\n  this is not told any more" if self._varied == _TOLD else ""
        varying = self._varying(given)
        return f"it is called with other shapes, dtypes or values that are no tensors{varying and f': {varying}'}{last}"

    def _varying(self, given: Arguments) -> str:
        """Which arguments are not as in the recording before, and what to do about it."""
        before, now = self._described, given.described()
        changed = [name for name in now if name in before and now[name] != before[name]]
        if not changed:
            return ""
        numbers = [name for name in changed if given.is_number(name)]
        texts = ", ".join(f"{name} was {before[name]} and is {now[name]}" for name in changed[:3])
        if numbers:
            name = numbers[0]
            return f"{texts}\n  pass {name} as a tensor, paddle.to_tensor({name}): one recording serves all its values"
        return f"{texts}\n  {self._advice}" if any("(" in before[name] for name in changed) else texts

    def _sizes(self, newest: RecordedStep) -> list[int]:
        """The bytes that each takes, about, the oldest first; tensors that the newest works on are not counted."""
        seen = {id(each) for each in newest.storages}
        sizes = []
        for step in [step for steps in self._kept.values() for step in reversed(steps)]:
            own = {id(each): each.array.nbytes for each in step.storages if id(each) not in seen}
            seen.update(own)
            sizes.append(step.nbytes + sum(own.values()))
        return sizes
