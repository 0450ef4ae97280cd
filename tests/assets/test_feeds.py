"""The feeds: which rows went where, and what was in them."""

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser
MODULE = "panels"


def panel(dashboard: Dashboard) -> object:
    return dashboard.page.get_by_role("region", name="Feeds")


def segments(dashboard: Dashboard) -> list[dict[str, float | str]]:
    """Of the bar: left edge, width and tooltip of every device's part, in pixels."""
    return dashboard.page.evaluate(
        """() => [...document.querySelectorAll('.wb-split rect:has(title)')].map(part => ({
            left: Number(part.getAttribute('x')), width: Number(part.getAttribute('width')),
            text: part.textContent, color: part.getAttribute('fill')}))"""
    )


def bar_width(dashboard: Dashboard) -> float:
    return dashboard.page.locator(".wb-split").evaluate("bar => bar.getBoundingClientRect().width")


def test_without_a_sample_one_line_says_what_will_be_here(dashboard: Dashboard) -> None:
    assert "which rows of the batch each device was fed" in panel(dashboard).inner_text()
    assert not dashboard.page.locator(".wb-split").is_visible()


def test_the_bar_is_cut_in_proportion_to_the_rows(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "sample", [16, 48])
    first, second = segments(dashboard)
    assert (first["text"], second["text"]) == ("CPUPlace(0): rows 0 to 15", "CPUPlace(1): rows 16 to 63")
    assert second["width"] / first["width"] == pytest.approx(3, abs=0.1)
    assert second["left"] == pytest.approx(first["left"] + first["width"] + 2, abs=0.1)
    assert second["left"] + second["width"] == pytest.approx(bar_width(dashboard), abs=2)
    assert first["color"] != second["color"]


def test_the_note_counts_and_an_uneven_split_is_said(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "sample", [3, 4])
    text = panel(dashboard).inner_text()
    assert "step 120: 7 rows over 2 devices, 3.6 KiB" in text
    assert "uneven: 3, 4 rows" in text
    dashboard.synthetic(MODULE, "sample", [4, 4])
    assert "uneven" not in panel(dashboard).inner_text()


def test_every_kind_of_preview_is_shown_for_every_device(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "sample", [32, 32])
    rows = dashboard.page.locator(".wb-feed-table tbody tr")
    assert rows.count() == 2
    for row in rows.all():
        assert row.get_by_role("img", name="first 4 images of 8 × 8, values 0 to 1, 2 NaN").count() == 1
        assert row.get_by_role("img", name="first 3 rows").locator("path").count() == 3
        assert row.get_by_role("img", name="labels: 0 ×").locator("rect").count() == 7
        assert "0.5, 1, 0.25, 1.00e-7, NaN, -Infinity" in row.inner_text()
        assert "[32, 1, 8, 8]\n8.0 KiB\nvalues 0 to 1, 2 NaN or Inf" in row.inner_text()


def test_thumbnails_hold_the_pixels_that_were_sent(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "sample", [32, 32])
    drawn, wanted = dashboard.page.evaluate(
        """async () => {
            const { sample } = await import('/assets/fixtures/panels.js');
            const [image] = sample().feeds.previews.image[0].images;
            const canvas = document.querySelector('canvas.wb-images');
            const { data } = canvas.getContext('2d').getImageData(0, 0, 8, 8);
            return [Array.from({length: 64}, (_, i) => data[i * 4]), image.pixels.$];
        }"""
    )
    assert drawn == wanted


def test_a_device_without_rows_is_there_and_has_no_part(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "sample", [4, 0])
    assert [part["text"] for part in segments(dashboard)] == ["CPUPlace(0): rows 0 to 3"]
    assert "empty" in dashboard.page.locator(".wb-feed-table tbody tr").nth(1).inner_text()


def test_many_feeds_and_devices_scroll_inside_the_panel(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "sample", [4] * 8, {"wide": 12})
    place = dashboard.page.locator(".wb-feed-scroll")
    assert place.evaluate("e => e.scrollHeight > e.clientHeight && e.scrollWidth > e.clientWidth")
    assert dashboard.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_rows_over_time_are_drawn_when_there_are_several_looks(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "scopes", [32, 31], 1)
    assert not dashboard.page.locator(".wb-feed-time").is_visible()
    dashboard.synthetic(MODULE, "scopes", [32, 31], 40)
    name = dashboard.page.locator(".wb-feed-time svg").first.get_attribute("aria-label")
    assert "CPUPlace(1): first 31, last 16, lowest 16, highest 31" in name


def test_a_sample_with_nothing_fed(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "sample", [])
    assert "Here you will see" in panel(dashboard).inner_text()


def test_the_newest_step_is_shown_though_nobody_looked_at_it(dashboard: Dashboard) -> None:
    dashboard.synthetic("panels", "sample", [32, 32], {"step": 120})
    dashboard.page.evaluate(
        """async () => {
            const { sample } = await import("/assets/fixtures/panels.js");
            const { step, graph, feeds } = sample([3, 4], { step: 133 });
            window.receive({ type: "fed", step, graph, applied: false, feeds });
        }"""
    )
    dashboard.settle()
    panel = dashboard.page.get_by_role("region", name="Feeds")
    assert "step 133, which was not applied: 7 rows over 2 devices" in panel.inner_text()
    seconds = {"$": [1, 1], "dtype": "float32"}
    dashboard.receive({"type": "samples", "step": {"$": [60, 120], "dtype": "int32"}, "seconds": seconds})
    assert "step 133" in panel.inner_text()
    dashboard.synthetic("panels", "sample", [32, 32], {"step": 60})  # it was chosen
    assert "step 60: 64 rows" in panel.inner_text()
