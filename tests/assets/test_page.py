"""The page that holds the dashboard without a kernel, and the fixture that watches it."""

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser


def test_an_empty_dashboard_says_hello_and_no_error(dashboard: Dashboard) -> None:
    assert {message["type"] for message in dashboard.sent()} == {"hello"}
    assert dashboard.page.get_by_role("region", name="workbench dashboard").is_visible()


def test_errors_of_the_page_are_collected(dashboard: Dashboard) -> None:
    dashboard.page.evaluate("console.error('broken')")
    dashboard.page.evaluate("setTimeout(() => { throw new Error('thrown'); })")
    dashboard.page.wait_for_timeout(50)
    assert [text for text in dashboard.errors if "broken" in text or "thrown" in text] == dashboard.errors
    assert len(dashboard.errors) == 2
    dashboard.errors.clear()


def test_what_cannot_be_seen_is_said_where_it_would_be(dashboard: Dashboard) -> None:
    panels = [dashboard.page.get_by_role("region", name=name) for name in ("Feeds", "Memory and scopes", "Timeline")]
    dashboard.synthetic("panels", "state", "running", {}, {"unseen": "The steps are made elsewhere."})
    assert ["The steps are made elsewhere." in panel.inner_text() for panel in panels] == [True] * 3
    dashboard.synthetic("panels", "state", "running")
    assert ["Here you will see" in panel.inner_text() for panel in panels] == [True] * 3
