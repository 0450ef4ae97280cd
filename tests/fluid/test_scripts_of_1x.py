"""Training scripts as programs of 1.x are written, with the losses that Paddle 1.8.5 gives from the same values."""

from __future__ import annotations

from typing import Any

import numpy as np

import workbench.fluid as fluid

L = fluid.layers
WORDS = [4.6401467, 5.2055521, 5.5872788, 4.902195, 4.8801918, 4.4788308]
AGAINST_EACH_OTHER = [1.4356229, 0.68961209, 1.4295168, 0.68640685, 1.4097089, 0.68638837, 1.4064687, 0.68472165]


def start(program: Any) -> Any:
    """An executor whose parameters have values that their names choose: weights are random, biases 0."""
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    for parameter in program.all_parameters():
        own = np.random.RandomState(sum(map(ord, parameter.name)))
        value = own.randn(*parameter.shape) * (0.1 if len(parameter.shape) > 1 else 0.0)
        tensor = fluid.global_scope().find_var(parameter.name).get_tensor()
        tensor.set(value.astype("float32"), fluid.CPUPlace())
    return executor


def test_words_that_come_next_as_in_the_book() -> None:
    words = [L.data(name=f"w{i}", shape=[1], dtype="int64") for i in range(4)]
    following = L.data(name="next", shape=[1], dtype="int64")
    rows = [L.embedding(input=w, size=[100, 16], is_sparse=True, param_attr="shared_w") for w in words]
    hidden = L.fc(input=L.concat(input=rows, axis=1), size=64, act="sigmoid")
    predicted = L.fc(input=hidden, size=100, act="softmax")
    loss = L.mean(L.cross_entropy(input=predicted, label=following))
    decay = fluid.regularizer.L2DecayRegularizer(8e-4)
    fluid.optimizer.AdagradOptimizer(learning_rate=3e-2, regularization=decay).minimize(loss)
    executor = start(fluid.default_main_program())
    feeder = fluid.DataFeeder(feed_list=[*words, following], place=fluid.CPUPlace())
    draw, losses = np.random.RandomState(2), []
    for _ in range(6):
        batch = [tuple(int(i) for i in draw.randint(0, 100, 5)) for _ in range(32)]
        losses.append(executor.run(feed=feeder.feed(batch), fetch_list=[loss])[0].item())
    np.testing.assert_allclose(losses, WORDS, rtol=2e-6)


def judged(x: Any) -> Any:
    hidden = L.fc(x, size=32, act="leaky_relu", param_attr="d_w1", bias_attr="d_b1")
    return L.fc(hidden, size=1, param_attr="d_w2", bias_attr="d_b2")


def drawn(noise: Any) -> Any:
    hidden = L.fc(noise, size=32, act="relu", param_attr="g_w1", bias_attr="g_b1")
    return L.fc(hidden, size=8, act="tanh", param_attr="g_w2", bias_attr="g_b2")


def taken_for(scores: Any, truth: float) -> Any:
    wanted = L.fill_constant_batch_size_like(scores, shape=[-1, 1], dtype="float32", value=truth)
    return L.reduce_mean(L.sigmoid_cross_entropy_with_logits(scores, wanted))


def minimize(program: Any, loss: Any, prefix: str) -> None:
    own = [p.name for p in program.global_block().all_parameters() if p.name.startswith(prefix)]
    fluid.optimizer.Adam(learning_rate=2e-3, beta1=0.5).minimize(loss, parameter_list=own)


def test_two_networks_against_each_other() -> None:
    judge, artist, first = fluid.Program(), fluid.Program(), fluid.default_startup_program()
    with fluid.program_guard(judge, first):
        real, noise = fluid.data("real", [None, 8]), fluid.data("noise", [None, 4])
        judge_loss = taken_for(judged(real), 1.0) + taken_for(judged(drawn(noise)), 0.0)
        minimize(judge, judge_loss, "d_")
    with fluid.program_guard(artist, first):
        artist_loss = taken_for(judged(drawn(fluid.data("noise", [None, 4]))), 1.0)
        minimize(artist, artist_loss, "g_")
    executor, draw, losses = start(judge), np.random.RandomState(3), []
    for _ in range(4):
        noise_here = draw.randn(16, 4).astype("float32")
        feed = {"real": draw.rand(16, 8).astype("float32"), "noise": noise_here}
        losses.append(executor.run(judge, feed=feed, fetch_list=[judge_loss])[0].item())
        losses.append(executor.run(artist, feed={"noise": noise_here}, fetch_list=[artist_loss])[0].item())
    np.testing.assert_allclose(losses, AGAINST_EACH_OTHER, rtol=2e-6)
