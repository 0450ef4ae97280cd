"""Programs with unknown dimensions are planned and lowered once for all shapes, when it is seen that these change.

The first shapes are planned each for itself: most programs have one or two. Then a binding is made whose sizes are open
(`lowering.open_binding`), and others are filled in from it; where a decision turns out otherwise for a shape, that
makes a further one, at once. Where another one would only be quicker, it is made when there have been many such shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from workbench.executors.lowering.open_binding import OpenBinding
from workbench.executors.planning.cache import Cache
from workbench.executors.planning.open_plan import Filled, OpenDims, open_dims
from workbench.executors.planning.plan import Given
from workbench.executors.planning.sizes.unknowns import Unsettled

_APART = 2  # shapes that are planned each for itself
_MOST = 8  # open bindings for feeds of one form
_FORMS = 16  # combinations of fetches and forms of feeds
_SEEN = 8  # shapes by which it is told what is open
_MAKESHIFTS = 32  # shapes for which another open binding would be quicker, before there is one

Make = Callable[[OpenDims], OpenBinding]


class Fit(NamedTuple):
    """An open binding, and the plan it gives for some feeds."""

    binding: OpenBinding
    filled: Filled


class OpenBindings:
    """Of one engine."""

    def __init__(self) -> None:
        self._forms: Cache[_FeedForm] = Cache(_FORMS)

    def fit(self, form: Hashable, given: Given, make: Make | None) -> Fit | None:
        """What gives the plan for some feeds, made if need be; None if they are to be planned for themselves.

        Args:
            form: what does not change: fetches, names, ranks and dtypes.
            make: an open binding for the last of the feeds seen; None if those there are have to do.
        """
        return self._forms.get(form, _FeedForm).fit(given, make)

    @property
    def refusals(self) -> list[str]:
        """Why there are no open bindings for some forms of feeds."""
        return [form.refusal for form in self._forms.values() if form.refusal]

    def clear(self) -> None:
        """Forget all."""
        self._forms.clear()


class _FeedForm:
    """Feeds of the same names, ranks and dtypes.

    Attributes:
        refusal: why there can be no open binding for them; "" if nothing speaks against it so far.
    """

    def __init__(self) -> None:
        self._seen: list[Given] = []
        self._open: list[OpenBinding] = []
        self._apart = 0  # shapes planned for themselves since the last open binding
        self._patience = _APART  # so many are, before there is another one
        self._makeshifts = 0  # shapes for which another open binding would be quicker, since the last one was made
        self.refusal = ""

    def fit(self, given: Given, make: Make | None) -> Fit | None:
        if self.refusal:
            return None
        self._open = [binding for binding in self._open if binding.is_current()]
        fit = self._best(given)
        if fit is not None and (fit.filled.is_preferred or make is None or not self._pays()):
            return fit
        if make is None:
            return None
        if fit is not None:
            return self._made(given, make) or fit
        self._seen = [*(seen for seen in self._seen[-_SEEN:] if seen != given), given]
        self._apart += 1
        if self._apart <= self._patience or len(self._open) == _MOST:
            return None
        self._apart = 0
        fit = self._made(given, make)
        self._patience = 0 if fit is not None else _APART
        return fit

    def _best(self, given: Given) -> Fit | None:
        """What is there already: the first that is made for such a shape, or else is right for it."""
        makeshift: Fit | None = None
        for number, binding in enumerate(self._open):
            filled = binding.try_fill(given)
            if filled is None:
                continue
            fit = Fit(binding, filled)
            if filled.is_preferred:
                self._open.insert(0, self._open.pop(number))  # the next shape is likely to be like this one
                return fit
            makeshift = makeshift or fit
        return makeshift

    def _pays(self) -> bool:
        """Whether there have been enough shapes for which another open binding would be quicker, this one included."""
        self._makeshifts += 1
        if self._makeshifts < _MAKESHIFTS or len(self._open) == _MOST:
            return False
        self._makeshifts = 0
        return True

    def _made(self, given: Given, make: Make) -> Fit | None:
        """From a new open binding; if there can be none, nobody tries again."""
        dims = open_dims([*(seen for seen in self._seen if seen != given), given])
        if dims is None:
            return None
        try:
            binding = make(dims)
        except Exception as error:
            self.refusal = _refusal_in(error)
            if not self.refusal:
                raise
            return None
        filled = None if binding.is_for_one_shape else binding.try_fill(given)
        if filled is None:
            return None
        self._open.insert(0, binding)
        return Fit(binding, filled)


def _refusal_in(error: BaseException | None) -> str:
    """What an exception says against open sizes, which may be told as the failure of an op; "" if it is another one."""
    while error is not None and not isinstance(error, Unsettled):
        error = error.__cause__
    return "" if error is None else str(error)
