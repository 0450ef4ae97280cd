"""What pictures show, in words."""

import numpy as np

from tests.notebook.figure_messages import (
    curves_message,
    made_up,
    scopes_message,
)
from tests.notebook.figures.real import Real, fed, spans, state, texts
from workbench.notebook.figures.facts import parts, summed
from workbench.notebook.figures.panels.draw import draw
from workbench.notebook.figures.panels.scopes import scopes
from workbench.notebook.figures.panels.timeline import timeline
from workbench.notebook.figures.text import describe

_NEXT = {"node": 4, "device": 0, "label": "relu", "us": 200.0, "share": 0.2, "steps": 12}
SLOWEST = {"node": 3, "device": 1, "label": "mul", "us": 412.0, "share": 0.41, "steps": 12, "next": [_NEXT]}


def test_describe_says_it_all(lenet: Real) -> None:
    messages = {
        "state": state(),
        "graph": lenet.graph,
        "sample": {**lenet.sample, "step": 3, "seconds": 0.0025, "slowest": SLOWEST},
        "scopes": scopes_message(lenet.training, 2),
        "curves": curves_message(1, "net"),
    }
    text = describe(messages)
    lines = text.splitlines()
    assert 10 <= len(lines) <= 25 and describe(messages) == text
    assert lines[0] == "net (run), AllReduce on 2 devices: cpu:0, cpu:1"
    assert lines[1] == "state: running, 120 of 2,400 steps, 1.3 s in all, 92.1 steps/s"
    assert lines[2].startswith("last values: loss 0.4123, accuracy ")
    assert "graph: 89 ops: 40 forward, 42 backward, 2 optimize, 5 collective" in lines
    assert "  cpu:0: x rows 0–31 float32[32, 1, 28, 28]; y rows 0–31 int64[32, 1] (98.2 KiB)" in lines
    assert "  cpu:1: x rows 32–63 float32[32, 1, 28, 28]; y rows 32–63 int64[32, 1] (98.2 KiB)" in lines
    assert any(line.startswith("  fused_all_reduce × 5: fc_2.b_0@GRAD, fc_2.w_0@GRAD, ") for line in lines)
    assert "step 3 took 2.50 ms; slowest ops (median of 12 steps), and their share of the time of all ops:" in lines
    assert lines[lines.index("  mul on cpu:1 412.0 µs (41%)") + 1] == "  relu on cpu:0 200.0 µs (20%)"
    assert "scopes dropped: not yet" in lines


def test_pictures_and_words_are_about_a_typical_step_and_say_how_it_was_chosen(lenet: Real) -> None:
    chosen = {**lenet.sample, "step": 8, "seconds": 0.0002, "among": 6, "slowest": SLOWEST}
    newest = {**lenet.sample, "step": 14, "seconds": 0.0117, "slowest": SLOWEST}
    messages = {"graph": lenet.graph, "sample": newest, "typical": chosen}
    for panel in ("timeline", "graph"):
        said = "; ".join(texts(draw(panel, messages)))
        assert (
            "step 8" in said.lower() and "(median of the 6 steps looked at)" in said and "step 14" not in said.lower()
        )
    assert "step 8 took 200.0 µs (median of the 6 steps looked at); slowest" in describe(messages)
    assert "Step 14: 11.70 ms" in texts(draw("timeline", {"graph": lenet.graph, "sample": newest}))


def test_pictures_and_words_name_the_slowest_of_all_steps_not_of_one() -> None:
    sample = {**spans((0, 0, 0, 5, 0), (1, 0, 1, 31, 0)), "slowest": SLOWEST}
    assert any("slowest: mul on device 1, 412.0 µs (median of 12 steps)" in text for text in texts(timeline(sample)))
    once = {**sample, "slowest": {**SLOWEST, "steps": 1, "next": []}}
    assert any("slowest: mul on device 1, 412.0 µs (of one step)" in text for text in texts(timeline(once)))
    assert "slowest ops (of one step), and" in describe({"sample": {**once, "seconds": 0.1}})
    assert "slowest" not in describe({"sample": spans((0, 0, 0, 5, 0))})  # nobody found one


def test_describe_takes_the_curves_of_several_runs() -> None:
    curve_messages = [curves_message(1, "a", steps=3), curves_message(2, "b", steps=3, seed=1)]
    assert (
        describe({"curves": curve_messages})
        == describe({"curves": curve_messages[-1]})
        != describe({"curves": curve_messages[0]})
    )


def test_describe_names_the_error() -> None:
    error = {"text": "op 'mul' failed\n  more", "op": "mul", "device": "cpu:1", "site": "Cell In[3], line 7"}
    text = describe({"state": state(state="failed", error=error, rate=None)})
    assert "state: failed, 120 of 2,400 steps, 1.3 s in all\nerror: op 'mul' failed …\n" in text
    assert "  op mul, on cpu:1, built at Cell In[3], line 7" in text


def test_describe_names_drops_by_cause() -> None:
    sizes, causes = np.array([2048.0] * 4 + [512]), ["interval"] * 4 + ["call"]
    drops = {"step": np.array([10.0, 20, 30, 40, 50]), "bytes": [sizes], "cause": causes}
    text = describe({"scopes": {"type": "scopes", "devices": ["cpu:0"], "strategy": "Reduce", "drops": drops}})
    assert text.splitlines()[-3:] == [
        "scopes dropped: 5 times (4 × interval, 1 × asked for)",
        "  dropped 2.0 KiB after steps 10, 20, 30, 40",
        "  dropped 512 B after step 50",
    ]


def test_drops_before_the_watching_are_said_to_be_unknown() -> None:
    drops = {"step": np.zeros(0), "bytes": [np.zeros(0)], "cause": [], "total": 0, "since": 1000}
    message = {"type": "scopes", "devices": ["cpu:0"], "strategy": "Reduce", "drops": drops}
    assert "scopes dropped: not since step 1,000; not watched before" in describe({"scopes": message})
    assert any("scopes not dropped since step 1,000, not watched before" in text for text in texts(scopes(message)))


def test_of_very_many_drops_all_are_counted() -> None:
    drops = {"step": np.array([10.0, 20]), "bytes": [np.ones(2)], "cause": ["interval"] * 2, "total": 3000}
    message = {"type": "scopes", "devices": ["cpu:0"], "strategy": "Reduce", "drops": drops}
    assert "scopes dropped: 3,000 times" in describe({"scopes": message})
    assert any("scopes dropped 3,000 times" in text for text in texts(scopes(message)))


def test_describe_without_a_run() -> None:
    text = describe({"state": {**state(), "run": None}, "graph": made_up([("mul", "Forward", "a", [0])], [], 1)})
    assert text.splitlines()[1:] == ["state: no run", "graph: 1 op: 1 forward", "layers: a", "collectives: none"]


def test_collectives_name_what_they_sum(tiny: Real) -> None:
    nodes = summed(tiny.graph)
    assert [one.type for one in nodes] == ["fused_all_reduce"] * 2
    names = {name for one in nodes for name in one.names}
    assert names == {f"fc_{k}.{p}_0@GRAD" for k in (0, 1) for p in "wb"}
    assert sum(one.bytes for one in nodes) == 4 * (64 * 32 + 32 + 32 * 10 + 10)


def test_parts_follow_each_other_where_nobody_said_otherwise(tiny: Real) -> None:
    assert [part.text() for part in parts(fed([1, 3])["feeds"], "x")] == ["row 0", "rows 1–3"]
    assert [part.first for part in parts(tiny.sample["feeds"], "x")] == [0, 16]
