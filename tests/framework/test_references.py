"""Who else holds an object."""

import numpy as np
import pytest

from workbench.framework.references import is_held_by_others


@pytest.mark.parametrize("make", [lambda: np.empty(3), object, list])
def test_who_holds_an_object_beside_its_owner_is_seen(make: object) -> None:
    owner = [make()]  # type: ignore[operator]
    for one in owner:
        assert not is_held_by_others(one)
        other = [one]
        assert is_held_by_others(one)
        other.clear()
        assert not is_held_by_others(one)


def test_a_view_holds_the_memory_it_shows() -> None:
    owner = [np.empty(8, np.uint8)]
    one = owner[0]
    view = one[:4].view(np.float32)
    assert is_held_by_others(one)
    del view
    assert not is_held_by_others(one)
