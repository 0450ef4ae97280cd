"""`ParallelExecutor.graph`: what a step will run, to be read before it runs."""

import pytest

from tests.parallel.models import batch, classifier
from workbench import static
from workbench.errors import PreconditionNotMet


def test_it_is_the_graph_the_strategies_ask_for() -> None:
    model = classifier()
    reduce = static.BuildStrategy()
    reduce.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
    kinds = [[n.type for n in model.parallel(2, build_strategy=b).graph().collectives()] for b in (None, reduce)]
    assert set(kinds[0]) == {"fused_all_reduce"}
    assert kinds[1] == ["reduce"] * 4  # two layers, a weight and a bias each


def test_the_fetches_are_in_it_and_bare_names_too() -> None:
    model = classifier().start()
    exe = model.parallel(2)
    for fetches in ([model.loss], model.loss, [model.loss.name]):
        assert [n.attrs["name"] for n in exe.graph(fetches).nodes if n.type == "fetch"] == [model.loss.name]
    assert not [n for n in exe.graph().nodes if n.type == "fetch"]


def test_it_needs_no_parameters_and_changes_no_result() -> None:
    model = classifier()
    exe = model.parallel(2)
    exe.graph()
    model.start()
    (seen,) = exe.run([model.loss], feed=batch())
    same_model = classifier().start()
    (alone,) = same_model.parallel(2).run([same_model.loss], feed=batch())
    assert seen.tolist() == alone.tolist()


def test_unknown_fetches_are_refused_as_run_does() -> None:
    with pytest.raises(PreconditionNotMet, match="nope"):
        classifier().parallel(2).graph(["nope"])


def test_asking_settles_the_strategies() -> None:
    strategy = static.BuildStrategy()
    classifier().parallel(2, build_strategy=strategy).graph()
    with pytest.raises(PreconditionNotMet):
        strategy.reduce_strategy = static.BuildStrategy.ReduceStrategy.Reduce
