"""Recurrent layers, step by step."""

import numpy as np

import workbench as wb
from tests.layers.row import Row

rng = np.random.default_rng(7)
X = rng.standard_normal((3, 5, 4))
LENGTHS = np.array([2, 5, 3])

nn = wb.nn


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def simple(w, x, state, activation=np.tanh):
    h = activation(x @ w["weight_ih"].T + w["bias_ih"] + state[0] @ w["weight_hh"].T + w["bias_hh"])
    return h, [h]


def lstm(w, x, state):
    gates = x @ w["weight_ih"].T + w["bias_ih"] + state[0] @ w["weight_hh"].T + w["bias_hh"]
    i, f, g, o = np.split(gates, 4, axis=1)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return h, [h, c]


def gru(w, x, state):
    ri, zi, ci = np.split(x @ w["weight_ih"].T + w["bias_ih"], 3, axis=1)
    rh, zh, ch = np.split(state[0] @ w["weight_hh"].T + w["bias_hh"], 3, axis=1)
    z, c = sigmoid(zi + zh), np.tanh(ci + sigmoid(ri + rh) * ch)
    h = z * state[0] + (1 - z) * c
    return h, [h]


CELLS = {"SimpleRNN": (simple, 1), "LSTM": (lstm, 2), "GRU": (gru, 1)}


def along(cell, w, x, state, lengths=None, back=False, zero=False):
    """Each sample by itself over its own length: outputs `[batch, time, hidden]` and the last states."""
    outputs, finals = [], []
    for b in range(len(x)):
        own = [s[b : b + 1] for s in state]
        end = x.shape[1] if lengths is None else lengths[b]
        rows = {}
        steps = range(x.shape[1])
        for t in reversed(steps) if back else steps:
            y, new = cell(w, x[b : b + 1, t], own)
            own = new if t < end else own
            rows[t] = y[0] if t < end or not zero else np.zeros_like(y[0])
        outputs.append(np.stack([rows[t] for t in steps]))
        finals.append(own)
    return np.stack(outputs), [np.concatenate(parts) for parts in zip(*finals)]


def zeros(count, size=3):
    return [np.zeros((3, size))] * count


def weights(values, prefix="", suffix=""):
    return {n: values[f"{prefix}{n}{suffix}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}


def stacked(kind, values, x, layers, ways, lengths=None, initial=None):
    """Outputs and states of a stack, flat: outputs, hidden states, cell states."""
    cell, count = CELLS[kind]
    finals = []
    for layer in range(layers):
        parts = []
        for way in range(ways):
            number = layer * ways + way
            state = zeros(count) if initial is None else [part[number] for part in initial]
            w = weights(values, suffix=f"_l{layer}" + "_reverse" * way)
            y, last = along(cell, w, x, state, lengths, way == 1, zero=True)
            parts.append(y)
            finals.append(last)
        x = np.concatenate(parts, axis=2)
    return [x, *(np.stack(part) for part in zip(*finals))]


def stack(kind):
    both = {"num_layers": 2, "direction": "bidirect"}
    make = getattr(nn, kind)
    state = [rng.standard_normal((2, 3, 3)) for _ in range(CELLS[kind][1])]

    def from_states(layer, x, *state):
        return layer(x, tuple(state) if len(state) == 2 else state[0])

    def with_lengths(layer, x, lengths):
        return layer(x, sequence_length=lengths)

    return {
        kind: Row(lambda: make(4, 3), [X], lambda v, x: stacked(kind, v, x, 1, 1)),
        f"{kind}/both ways": Row(lambda: make(4, 3, **both), [X], lambda v, x: stacked(kind, v, x, 2, 2)),
        f"{kind}/lengths": Row(
            lambda: make(4, 3, **both),
            [X, LENGTHS],
            lambda v, x, lengths: stacked(kind, v, x, 2, 2, lengths),
            call=with_lengths,
        ),
        f"{kind}/states, time first": Row(
            lambda: make(4, 3, 2, time_major=True),
            [X.swapaxes(0, 1), *state],
            lambda v, x, *state: time_first(stacked(kind, v, x.swapaxes(0, 1), 2, 1, initial=state)),
            call=from_states,
            known=True,
        ),
        f"{kind}Cell": Row(
            lambda: getattr(nn, f"{kind}Cell")(4, 3),
            [X[:, 0]],
            lambda v, x: flat(CELLS[kind][0](weights(v), x, zeros(CELLS[kind][1]))),
        ),
    }


def time_first(outputs):
    return [outputs[0].swapaxes(0, 1), *outputs[1:]]


def flat(pair):
    return [pair[0], *pair[1]]


class Adder(nn.RNNCellBase):
    """A cell of a user: the state is the sum of the inputs so far, and of an option."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    @property
    def state_shape(self):
        return (3,)

    def forward(self, inputs, states, more=0.0):
        total = self.linear(inputs) + states + more
        return total * 2.0, total


def added(v, x):
    total = (x @ v["cell.linear.weight"] + v["cell.linear.bias"] + 0.5).cumsum(1)
    return [total * 2, total[:, -1]]


def one_way(kind, back):
    cell, count = CELLS[kind]

    def ref(v, x, lengths):
        return flat(along(cell, weights(v, "cell."), x, zeros(count), lengths, back))

    def call(layer, x, lengths):
        return layer(x, None, lengths)

    return Row(lambda: nn.RNN(getattr(nn, f"{kind}Cell")(4, 3), is_reverse=back), [X, LENGTHS], ref, call=call)


def both_ways(v, x):
    forth, last = along(gru, weights(v, "cell_fw."), x, zeros(1))
    back, begun = along(gru, weights(v, "cell_bw."), x, zeros(1), back=True)
    return [np.concatenate([forth, back], 2), *last, *begun]


ROWS = {
    **stack("SimpleRNN"),
    **stack("LSTM"),
    **stack("GRU"),
    "SimpleRNNCell/relu": Row(
        lambda: nn.SimpleRNNCell(4, 3, "relu", bias_hh_attr=False),
        [X[:, 0]],
        lambda v, x: flat(simple(weights(v), x, zeros(1), lambda a: np.maximum(a, 0))),
    ),
    "RNN": one_way("LSTM", False),
    "RNN/backwards": one_way("GRU", True),
    "RNN/a cell of a user": Row(
        lambda: nn.RNN(Adder()), [X], added, call=lambda layer, x: layer(x, more=0.5), tolerance={"rtol": 1e-4}
    ),
    "BiRNN": Row(lambda: nn.BiRNN(nn.GRUCell(4, 3), nn.GRUCell(4, 3)), [X], both_ways),
    "RNNCellBase": Row(
        lambda: Adder(),
        [X[:, 0]],
        lambda v, x: [2 * (x @ v["linear.weight"] + v["linear.bias"]), x @ v["linear.weight"] + v["linear.bias"]],
        call=lambda layer, x: layer(x, layer.get_initial_states(x)),
    ),
}
