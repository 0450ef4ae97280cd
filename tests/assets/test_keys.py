"""Which keys leave the dashboard, and what buttons and notes are called and look like."""

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser


def reached(dashboard: Dashboard, key: str) -> bool:
    """Whether a key that is pressed in the dashboard comes to what is around it."""
    dashboard.page.evaluate("document.onkeydown = ({ key }) => { window.last = key; }; window.last = null")
    dashboard.page.keyboard.press(key)
    return dashboard.page.evaluate("window.last") not in (None, "Control")


def test_ctrl_and_a_key_that_nothing_here_uses_goes_on(dashboard: Dashboard) -> None:
    dashboard.page.get_by_label("learning rate").focus()
    assert reached(dashboard, "Control+b")
    assert not reached(dashboard, "Control+a")
    assert not reached(dashboard, "d")


def test_buttons_that_save_say_what(dashboard: Dashboard) -> None:
    for title in ("SSA graph", "Feeds", "Curves", "Memory and scopes", "Timeline"):
        for kind in ("SVG", "PNG"):
            assert dashboard.page.get_by_role("button", name=f"save {title} as {kind}", exact=True).count() == 1


def test_notes_keep_their_room(dashboard: Dashboard) -> None:
    dashboard.synthetic("timeline", "everything", {"devices": 4})
    for width in (330, 500, 660, 970):
        dashboard.width(width)
        notes = [note.bounding_box() for note in dashboard.page.locator(".wb-note").all() if note.inner_text()]
        assert len(notes) >= 2 and all(note["width"] >= 200 for note in notes)
        assert dashboard.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
