"""Programs with unknown dimensions are planned and lowered once for all shapes, when it is seen that these change.

A program that declares other dimensions than the first one of its feeds to be unknown is planned so from the first step
on. Of others the first shapes are planned each for itself: most have one or two. Then a binding is made whose sizes are
open (`lowering.open_binding`), and others are filled in from it; where a decision turns out otherwise for a shape, that
makes a further one, at once. Where another one would only be quicker, it is made (`improve`) when that pays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from workbench.executors.lowering.open_binding import OpenBinding
from workbench.executors.planning.cache import Cache
from workbench.executors.planning.open_plan import (
    Filled,
    OpenDims,
    declared_dims,
    open_dims,
    open_dims_by_distance,
)
from workbench.executors.planning.plan import Given
from workbench.executors.planning.sizes.unknowns import Equal, Fixed, Unsettled
from workbench.framework.values.spec import Shape

_APART = 2  # shapes that are planned each for itself
_MOST = 8  # open bindings for feeds of one form
_FORMS = 16  # combinations of fetches and forms of feeds
_SEEN = 8  # shapes by which it is told what is open

Declared = Mapping[str, Shape] | None


class OpenForm(Protocol):
    """What is right for many sizes, as an `OpenBinding`."""

    @property
    def in_python(self) -> Any:
        """The nodes that no kernels run."""

    def is_current(self) -> bool:
        """Whether what it is bound to is still there."""

    def try_fill(self, given: Given) -> Filled | None:
        """The plan for these feeds; None if this is not right for them."""


F = TypeVar("F", bound=OpenForm)


@dataclass(frozen=True)
class Fit(Generic[F]):
    """An open binding, and the plan it gives for some feeds."""

    binding: F
    filled: Filled


Make = Callable[[OpenDims], OpenBinding]


class OpenBindings:
    """Of one engine."""

    def __init__(self) -> None:
        self._forms: Cache[FeedForm[OpenBinding]] = Cache(_FORMS)

    def fit(
        self, form: Hashable, given: Given, make: Make | None, declared: Declared = None
    ) -> Fit[OpenBinding] | None:
        """What gives the plan for some feeds, made if need be; None if they are to be planned for themselves.

        Args:
            form: what does not change: fetches, names, ranks and dtypes.
            make: an open binding for the last of the feeds seen; None if those there are have to do.
            declared: shapes of feeds if their sizes are expected to change; None to see whether they do.
        """
        return self._forms.get(form, lambda: FeedForm(declared)).fit(given, make)

    def improve(self, form: Hashable, given: Given, make: Make) -> bool:
        """Make another open binding for feeds for which those there are do not give the quickest plan.

        Returns:
            whether that is so now.
        """
        return self._forms.get(form, FeedForm).improve(given, make)

    @property
    def refusals(self) -> list[str]:
        """Why there are no open bindings for some forms of feeds."""
        return [form.refusal for form in self._forms.values() if form.refusal]

    def clear(self) -> None:
        """Forget all."""
        self._forms.clear()


class FeedForm(Generic[F]):
    """Feeds of the same names, ranks and dtypes.

    Args:
        declared: their shapes, if it is expected that their sizes change.

    Attributes:
        refusal: why there can be no open binding for them; "" if nothing speaks against it so far.
    """

    def __init__(self, declared: Declared = None) -> None:
        self._declared = declared
        self._seen: list[Given] = []
        self._open: list[F] = []
        self._apart = 0  # shapes planned for themselves since the last open binding
        self._patience = _APART  # so many are, before there is another one
        self.refusal = ""

    def fit(self, given: Given, make: Callable[[OpenDims], F] | None) -> Fit[F] | None:
        if self.refusal:
            return None
        self._open = [binding for binding in self._open if binding.is_current()]
        fit = self._best(given)
        if fit is not None or make is None:
            return fit
        self._seen = [*(seen for seen in self._seen[-_SEEN:] if seen != given), given]
        self._apart += 1
        if self._declared is not None and len(self._open) < _MOST:
            return self._made_as_declared(given, make)
        if self._apart <= self._patience or len(self._open) == _MOST:
            return None
        self._apart = 0
        fit = self._made(given, make)
        self._patience = 0 if fit is not None else _APART
        return fit

    def _best(self, given: Given) -> Fit[F] | None:
        """What is there already: the first that is made for such a shape, or else is right for it."""
        makeshift: Fit[F] | None = None
        for number, binding in enumerate(self._open):
            filled = binding.try_fill(given)
            if filled is None:
                continue
            fit = Fit(binding, filled)
            if not filled.wanting:
                self._open.insert(0, self._open.pop(number))  # the next shape is likely to be like this one
                return fit
            makeshift = makeshift or fit
        return makeshift

    def improve(self, given: Given, make: Callable[[OpenDims], F]) -> bool:
        """Make another open binding, the quickest one for these feeds, if there may be more; whether that is so."""
        return len(self._open) < _MOST and self._made(given, make) is not None

    def _made_as_declared(self, given: Given, make: Callable[[OpenDims], F]) -> Fit[F] | None:
        """From an open binding in which all is open that is declared so; if there can be none, we see what changes.

        Nor is there one if rows of it would run in Python, which a plan for one shape may have kernels for.
        """
        fit = self._made(given, make)
        if fit is None:
            self._declared, self.refusal = None, ""
        self._apart = self._patience = 0
        return fit

    def _made(self, given: Given, make: Callable[[OpenDims], F]) -> Fit[F] | None:
        """From a new open binding; if there can be none, nobody tries again."""
        if self._declared is not None:
            return self._made_of(declared_dims(given, self._declared), given, make)
        seen = [*(seen for seen in self._seen if seen != given), given]
        fit = self._made_of(open_dims(seen), given, make)
        if fit is None and not self.refusal and len(seen) > _APART:
            fit = self._made_of(open_dims_by_distance(seen), given, make)
        return fit

    def _made_of(self, dims: OpenDims | None, given: Given, make: Callable[[OpenDims], F]) -> Fit[F] | None:
        binding: F | None = None
        while dims is not None and binding is None:
            try:
                binding = make(dims)
            except Exception as error:
                reason = _reason_in(error)
                if reason is None:
                    raise
                if not isinstance(reason, Equal | Fixed):
                    self.refusal = str(reason)
                    return None
                if self._declared is None:
                    return None  # they are equal in this shape, and were not in another one
                dims = dims.narrowed(reason)
        if binding is None or (self._declared is not None and binding.in_python):
            return None
        return self._fit_of(binding, given)

    def _fit_of(self, binding: F, given: Given) -> Fit[F] | None:
        filled = binding.try_fill(given)
        if filled is None:
            return None
        self._open.insert(0, binding)
        return Fit(binding, filled)


def _reason_in(error: BaseException | None) -> Unsettled | None:
    """What speaks against open sizes, which may be told as the failure of an op; None if it is something else."""
    while error is not None and not isinstance(error, Unsettled):
        error = error.__cause__
    return error
