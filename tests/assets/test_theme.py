"""The page has the colours of where it is shown: JupyterLab, VS Code, Colab, or whatever the system has."""

from typing import Any

import pytest

from tests.assets.conftest import Dashboard

pytestmark = pytest.mark.browser
WHITE, DARK = "rgb(255, 255, 255)", "rgb(31, 31, 31)"


def colors(dashboard: Dashboard) -> tuple[Any, Any]:
    return tuple(
        dashboard.page.evaluate(
            "() => { const s = getComputedStyle(document.querySelector('.wb-dashboard'));"
            " return [s.backgroundColor, s.color]; }"
        )
    )


def root(dashboard: Dashboard, code: str) -> None:
    dashboard.page.evaluate(f"() => {{ const root = document.documentElement; {code} }}")
    dashboard.settle()


def lightness(color: str) -> float:
    return sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")) / 3 / 255


def test_the_systems_theme_where_nothing_else_is_known(dashboard: Dashboard) -> None:
    assert colors(dashboard)[0] == WHITE
    dashboard.page.emulate_media(color_scheme="dark")
    back, text = colors(dashboard)
    assert back == DARK and lightness(text) > 0.7


def test_jupyterlabs_theme_counts_more_than_the_systems(dashboard: Dashboard) -> None:
    dashboard.page.emulate_media(color_scheme="dark")
    root(dashboard, "root.style.cssText = '--jp-layout-color1: #fafafa; --jp-ui-font-color1: #101010'")
    assert colors(dashboard) == ("rgb(250, 250, 250)", "rgb(16, 16, 16)")


def test_vs_codes_theme_counts_more_than_what_widgets_bring_along(dashboard: Dashboard) -> None:
    style = "--jp-layout-color1: white; --jp-ui-font-color1: black; --vscode-editor-background: #1e1e1e; "
    root(dashboard, f"root.style.cssText = '{style} --vscode-foreground: #cccccc'")
    assert colors(dashboard) == ("rgb(30, 30, 30)", "rgb(204, 204, 204)")


@pytest.mark.parametrize(
    ("kind", "back"),
    [
        ("vscode-dark", DARK), ("vscode-high-contrast", DARK), ("vscode-light", WHITE),
        ("vscode-high-contrast-light", WHITE),
    ],
)  # fmt: skip
def test_what_a_theme_of_vs_code_leaves_open_is_ours_of_its_kind(dashboard: Dashboard, kind: str, back: str) -> None:
    light = "--jp-layout-color1: #fafafa; --jp-ui-font-color1: #101010; --jp-ui-font-color2: #303030"
    for scheme in ("dark", "light"):
        dashboard.page.emulate_media(color_scheme=scheme)
        root(dashboard, f"root.style.cssText = '{light}'; document.body.dataset.vscodeThemeKind = '{kind}'")
        assert colors(dashboard)[0] == back
        shown = dashboard.page.evaluate(
            """() => { const s = getComputedStyle(document.querySelector('.wb-dashboard'));
                return [s.colorScheme, s.getPropertyValue('--wb-faint')]; }"""
        )
        assert shown == (["dark", "#a8adb3"] if back == DARK else ["light", "#59636e"])


def test_colabs_theme_is_the_one_it_names(dashboard: Dashboard) -> None:
    root(dashboard, "root.style.cssText = '--jp-layout-color1: white'; root.setAttribute('theme', 'dark')")
    assert colors(dashboard)[0] == DARK
    dashboard.page.emulate_media(color_scheme="dark")
    root(dashboard, "root.style.cssText = ''; root.setAttribute('theme', 'light')")
    assert colors(dashboard)[0] == WHITE


def test_drawings_follow_when_the_systems_theme_changes(dashboard: Dashboard) -> None:
    dashboard.synthetic("graph", "onWire", "training", {"devices": 4, "layers": 98})
    dashboard.page.locator(".wb-graph").get_by_role("button", name="expand all").click()
    dashboard.settle()
    drawn = "() => document.querySelector('canvas').toDataURL()"
    before = dashboard.page.evaluate(drawn)
    dashboard.page.emulate_media(color_scheme="dark")
    dashboard.page.wait_for_function("before => before !== document.querySelector('canvas').toDataURL()", arg=before)
    assert dashboard.page.evaluate(drawn) != before
