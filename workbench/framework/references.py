"""Whether anybody else holds an object, by CPython's count of references.

How many of them a question about an object takes for itself differs between versions of Python; so it is measured, of
an object that is known to have one owner.
"""

from __future__ import annotations

from sys import getrefcount


def is_held_by_others(one: object) -> bool:
    """Whether anybody holds an object but its one owner and the local name that it is asked about by."""
    return getrefcount(one) > _OF_ONE_OWNER


def _counted(one: object) -> int:
    return getrefcount(one)


def _with_one_owner() -> int:
    owner = [object()]
    one = owner[0]
    return _counted(one)


_OF_ONE_OWNER = _with_one_owner()
