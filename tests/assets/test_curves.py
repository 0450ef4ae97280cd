"""The curves: several runs on each other, what is shown of them, and how long drawing takes."""

from typing import Any

import numpy as np
import pytest

from tests.assets.conftest import Dashboard
from workbench.experiments.charts.ranges import typical_range

pytestmark = pytest.mark.browser
MODULE = "panels"


def panel(dashboard: Dashboard) -> Any:
    return dashboard.page.get_by_role("region", name="Curves")


def drawing(dashboard: Dashboard, series: str) -> Any:
    return panel(dashboard).get_by_role("img", name=f"{series} over the steps")


def lines(dashboard: Dashboard, series: str) -> list[str]:
    """Colour, dashes and opacity of every line."""
    return drawing(dashboard, series).evaluate(
        """svg => [...svg.querySelectorAll('.wb-line')].map(line =>
            ['stroke', 'stroke-dasharray', 'opacity'].map(name => line.getAttribute(name)).join('|'))"""
    )


def test_without_curves_one_line_says_what_will_be_here(dashboard: Dashboard) -> None:
    assert "Here you will see the curves" in panel(dashboard).inner_text()
    assert not panel(dashboard).get_by_label("smoothing").is_visible()


def test_runs_lie_on_each_other_with_colours_and_dashes_of_their_own(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 3)
    assert len(set(lines(dashboard, "loss"))) == 3
    assert len({line.split("|")[1] for line in lines(dashboard, "loss")}) == 3
    name = drawing(dashboard, "loss").get_attribute("aria-label")
    for words in ("lr 0.010: first ", "lowest", "highest", "over 400 points"):
        assert words in name


def test_runs_and_series_can_be_hidden(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 3)
    before = lines(dashboard, "loss")
    panel(dashboard).get_by_role("checkbox", name="lr 0.020").uncheck()
    assert lines(dashboard, "loss") == [before[0], before[2]]
    panel(dashboard).get_by_role("checkbox", name="accuracy").uncheck()
    assert drawing(dashboard, "accuracy").count() == 0
    dashboard.synthetic(MODULE, "runs", 3)
    assert len(lines(dashboard, "loss")) == 2
    panel(dashboard).get_by_role("checkbox", name="accuracy").check()
    assert len(lines(dashboard, "accuracy")) == 2


def test_smoothing_leaves_the_curve_itself_behind_it(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 2)
    panel(dashboard).get_by_label("smoothing").fill("0.9")
    drawn = lines(dashboard, "loss")
    assert len(drawn) == 4
    assert [line.endswith("0.3") for line in drawn] == [True, True, False, False]
    drawing(dashboard, "loss").hover(position={"x": 400, "y": 60})
    readout = panel(dashboard).locator(".wb-readout").first
    assert "value (smoothed)" in readout.inner_text()
    inside = readout.evaluate("""e => { const [a, b] = [e, e.parentNode].map(x => x.getBoundingClientRect());
        return a.left >= b.left && a.right <= b.right; }""")
    assert inside


def test_a_band_is_drawn_for_buckets_of_several_steps(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 2)
    assert drawing(dashboard, "loss").locator(".wb-band").count() == 0
    dashboard.synthetic(MODULE, "runs", 2, {"width": 4})
    assert drawing(dashboard, "loss").locator(".wb-band").count() == 2


def test_a_logarithmic_axis(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "curves", "a", {"label": "a"})
    linear = drawing(dashboard, "loss").locator("text").all_text_contents()
    panel(dashboard).get_by_label("log scale").check()
    logarithmic = drawing(dashboard, "loss").locator("text").all_text_contents()
    assert linear != logarithmic
    assert {"0.2", "0.5", "1", "2"} <= set(logarithmic)


def test_nan_is_a_gap_and_is_said(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "curves", "a", {"label": "a", "nan": 200})
    assert "NaN from step 201" in drawing(dashboard, "loss").text_content()
    assert "loss NaN from step 201" in panel(dashboard).get_by_role("group", name="runs").inner_text()
    assert "NaN from step 201" in drawing(dashboard, "loss").get_attribute("aria-label")
    path = drawing(dashboard, "loss").locator(".wb-line").get_attribute("d")
    assert "NaN" not in path


def test_a_run_that_diverged_leaves_the_frame_to_the_others(dashboard: Dashboard) -> None:
    ticks = """svg => [...svg.querySelectorAll('.wb-axes text')].filter(t => t.getAttribute('text-anchor') === 'end')
        .map(t => Number(t.textContent)).filter(n => !isNaN(n))"""
    dashboard.synthetic(MODULE, "runs", 2)
    assert panel(dashboard).get_by_label("whole range").is_hidden()
    usual = drawing(dashboard, "loss").evaluate(ticks)
    dashboard.synthetic(MODULE, "runs", 3)
    dashboard.synthetic(MODULE, "curves", "run-2", {"label": "lr 0.020", "diverges": 100})
    for log in (False, True):
        panel(dashboard).get_by_label("log scale").set_checked(log)
        assert max(drawing(dashboard, "loss").evaluate(ticks)) <= (1000 if log else 3 * max(usual))
        assert drawing(dashboard, "loss").locator(".wb-edge").count() == 1
        note = panel(dashboard).get_by_text("outside the frame").inner_text()
        assert "lr 0.020 from step 1" in note and "lr 0.010" not in note
    panel(dashboard).get_by_label("log scale").uncheck()
    box = drawing(dashboard, "loss").locator(".wb-framed").evaluate("e => [e.y.baseVal.value, e.height.baseVal.value]")
    heights = drawing(dashboard, "loss").locator(".wb-line").evaluate_all("all => all.map(e => e.getBBox().height)")
    assert heights[0] > box[1] / 5  # the others still have room
    panel(dashboard).get_by_label("whole range").check()
    assert max(drawing(dashboard, "loss").evaluate(ticks)) > 1e11
    assert panel(dashboard).get_by_text("outside the frame").is_hidden()
    assert drawing(dashboard, "loss").locator(".wb-edge").count() == 0


def test_pictures_without_a_page_have_the_same_range(dashboard: Dashboard) -> None:
    random = np.random.default_rng(3)
    for case in range(60):
        runs = [falling(random) for _ in range(random.integers(1, 6))]
        log = bool(case % 2)
        drawn = dashboard.page.evaluate(
            """async ([runs, log]) => {
                const { typicalRange } = await import('/assets/src/curves/range.js');
                return typicalRange(runs.map(mean => ({ mean: Float64Array.from(mean) })), log);
            }""",
            [[run.tolist() for run in runs], log],
        )
        wanted = typical_range([[run] for run in runs], log)
        assert wanted is not None
        assert drawn["range"] == pytest.approx(wanted.shown, rel=1e-9)
        assert drawn["whole"] == pytest.approx(wanted.whole, rel=1e-9)


def falling(random: np.random.Generator) -> np.ndarray:
    """A curve that may grow without end, spike, or be below zero."""
    steps = np.arange(random.integers(1, 300))
    values = random.uniform(-1, 5) * np.exp(-steps / random.uniform(5, 200)) + random.normal(0, 0.1, len(steps))
    if random.random() < 0.4:
        values *= random.uniform(1, 1.2) ** steps
    if random.random() < 0.3:
        values[random.integers(len(steps))] = 1000 * random.normal()
    return values * 10 ** random.uniform(-1, 2)  # runs may have levels of their own


def test_the_pointer_reads_off_all_runs_at_one_step_in_all_charts(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 3)
    drawing(dashboard, "loss").scroll_into_view_if_needed()
    drawing(dashboard, "loss").hover(position={"x": 200, "y": 60})
    readouts = panel(dashboard).locator(".wb-readout:visible")
    assert readouts.count() == 3
    heads = readouts.locator(".wb-readout-head").all_inner_texts()
    assert heads[0] == heads[1]
    step = int(heads[0].removeprefix("step "))
    values = readouts.first.locator("b").all_inner_texts()
    wanted = dashboard.page.evaluate(
        """async step => {
            const { runs } = await import('/assets/fixtures/panels.js');
            return runs(3).slice(1).map(run => Math.fround(run.series.loss.mean.$[step - 1]));
        }""",
        step,
    )
    assert [float(value) for value in values] == pytest.approx(wanted, rel=1e-3)
    dashboard.page.mouse.move(5, 5)
    assert readouts.count() == 0


def test_the_keyboard_reads_off_too(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 1)
    drawing(dashboard, "loss").locator("xpath=..").focus()
    dashboard.page.keyboard.press("Home")
    head = panel(dashboard).locator(".wb-readout-head").first
    assert head.inner_text() == "step 1"
    dashboard.page.keyboard.press("ArrowRight")
    assert head.inner_text() == "step 2"
    dashboard.page.keyboard.press("Escape")
    assert not head.is_visible()


def test_the_note_says_how_long_it_will_take(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 1)
    assert "10.4 s left" in panel(dashboard).inner_text()
    assert panel(dashboard).get_by_role("img", name="steps per second").is_visible()


def test_a_run_that_is_gone_is_not_drawn(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 3)
    dashboard.synthetic(MODULE, "state", "running", {"id": "run-3", "name": "lr 0.040"})
    assert len(lines(dashboard, "loss")) == 1


def test_a_tick_keeps_the_focus_while_curves_come(dashboard: Dashboard) -> None:
    dashboard.synthetic(MODULE, "runs", 3)
    panel(dashboard).get_by_role("checkbox", name="lr 0.020").focus()
    dashboard.synthetic(MODULE, "runs", 4)
    name = dashboard.page.evaluate("document.activeElement.closest('label').innerText")
    assert "lr 0.020" in name


def test_what_is_drawn_of_5_runs_is_bounded_by_the_pixels_not_by_their_steps(dashboard: Dashboard) -> None:
    drawn = dashboard.page.evaluate(
        """async () => {
            const { chart } = await import('/assets/src/draw/chart.js');
            const { seriesSpec } = await import('/assets/src/curves/spec.js');
            const { runs } = await import('/assets/fixtures/panels.js');
            const floats = numbers => Float64Array.from(numbers.$);
            const drawn = (buckets) => runs(5, { buckets, width: 4 }).slice(1).map((run, i) => ({
                label: run.label, color: 'black', dash: null, shown: true,
                curves: { width: 4, series: { loss: Object.fromEntries(
                    Object.entries(run.series.loss).map(([name, numbers]) => [name, floats(numbers)])) } } }));
            return [2000, 20000].map((buckets) => {
                const figure = chart();
                document.getElementById('place').append(figure.element);
                figure.draw(seriesSpec('loss', drawn(buckets), { smoothing: 0.8, log: false }));
                const points = (kind) => [...figure.svg.querySelectorAll(kind)].map(
                    (path) => path.getAttribute("d").match(/[ML]/g).length);
                const { width } = figure.svg.getBoundingClientRect();
                const count = figure.svg.querySelectorAll("*").length;
                return { width, count, lines: points(".wb-line"), bands: points(".wb-band") };
            });
        }"""
    )
    few, many = drawn
    assert len(few["lines"]) == len(many["lines"]) == 10 and len(few["bands"]) == len(many["bands"]) == 5
    assert few["count"] == many["count"] < 50  # no element for a point
    assert max(few["lines"]) <= 2000 and max(many["lines"]) < 20_000
    assert max(*few["bands"], *many["bands"]) <= 2 * many["width"]  # two for each column of pixels
