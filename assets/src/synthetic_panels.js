// Messages as a kernel would send them, for looking at the panels and for tests; `{ $, dtype }` are buffers to be.

const column = (dtype, length, value) => ({ $: Array.from({ length }, (_, i) => value(i)), dtype });
const noise = (i, seed = 1) => Math.sin(i * 12.9898 * seed + seed) * 0.5 + Math.sin(i * 4.1414 * seed) * 0.5;
const deviceNames = (n) => Array.from({ length: n }, (_, i) => `CPUPlace(${i})`);

const VALUES = {
  program: "digits",
  data: "digits",
  devices: 2,
  reduce_strategy: "AllReduce",
  num_threads: 4,
  num_iteration_per_drop_scope: 100,
  batch_size: 64,
  learning_rate: 0.01,
  steps: 1000,
  epochs: null,
  valid: null,
  checkpoints: null,
};

const ALLOWED = {
  none: ["run", "step"],
  ready: ["run", "step"],
  running: ["pause", "step", "stop", "drop", "save"],
  paused: ["resume", "step", "stop", "drop", "save"],
  stopped: ["run", "step", "drop"],
  done: ["run", "step", "drop"],
  failed: ["run", "step", "drop"],
};

export const ERROR = {
  text: "InvalidArgument: mul takes [rows, 64] and [64, 10], got [32, 60] and [64, 10]\n  x: fc_0.tmp_0, float32\n  y: fc_0.w_0, float32",
  op: "mul",
  device: "CPUPlace(1)",
  site: "Cell In[3], line 7",
};

// `how`: "none" for no run yet; `more` replaces parts of the run, `controls` parts of the controls.
export function state(how = "running", more = {}, { devices = 2, runs = [], notice = null, values = {}, busy = null } = {}) {
  const run = {
    id: "run-1",
    name: "digits",
    state: how,
    step: 120,
    steps: 1000,
    seconds: 12.3,
    rate: how === "running" ? 84.2 : 0,
    eta: how === "running" ? 10.4 : null,
    last: { loss: 0.3127, accuracy: 0.9219 },
    error: how === "failed" ? ERROR : null,
    ...more,
  };
  return {
    type: "state",
    subject: { name: "digits", kind: "executor", devices: deviceNames(devices), strategy: "AllReduce", graph: "1" },
    run: how === "none" ? null : run,
    runs: runs.length ? runs : how === "none" ? [] : [{ id: run.id, label: run.name, state: run.state, steps: run.step }],
    controls: {
      values: { ...VALUES, ...values },
      choices: { program: ["digits", "wide"], data: ["digits", "noise"], valid: ["digits", "noise"], reduce_strategy: ["AllReduce", "Reduce"], checkpoints: ["last", "best", "best and last"] },
      allowed: busy ? [] : ALLOWED[how],
      busy,
    },
    notice,
  };
}

// Digits as images of 8 x 8, rows as vectors, labels, one number: `rows` per device.
export function sample(rows = [32, 32], { step = 120, wide = 0 } = {}) {
  const starts = rows.map((_, i) => rows.slice(0, i).reduce((sum, n) => sum + n, 0));
  const names = ["image", "row", "label", "weight", ...Array.from({ length: wide }, (_, i) => `extra_${i}`)];
  const shapes = { image: [1, 8, 8], row: [64], label: [1], weight: [] };
  const dtypes = { image: "float32", row: "float32", label: "int64", weight: "float32" };
  const of = (make) => Object.fromEntries(names.map((name) => [name, make(name)]));
  return {
    type: "sample",
    step,
    graph: "1",
    seconds: 0.0119,
    at: 1,
    feeds: {
      devices: deviceNames(rows.length),
      names,
      rows: of(() => rows),
      first: of(() => starts),
      shapes: of((name) => rows.map((n) => [n, ...(shapes[name] ?? [3])])),
      dtypes: of((name) => dtypes[name] ?? "float32"),
      nbytes: rows.map((n) => n * (64 * 4 * 2 + 8 + 4)),
      previews: of((name) => rows.map((n, device) => previewOf(name, n, device))),
    },
    spans: { node: column("int32", 0), device: column("int32", 0), thread: column("int32", 0), start: column("float32", 0), end: column("float32", 0), collective: column("uint8", 0), label: column("int32", 0) },
    labels: [],
    members: { span: column("int32", 0), node: column("int32", 0) },
  };
}

function previewOf(name, rows, device) {
  if (!rows) return { kind: "numbers", values: [] };
  if (name === "image") return { kind: "image", images: [0, 1, 2, 3].slice(0, rows).map((i) => ring(i + device)) };
  if (name === "row") return { kind: "vector", rows: [0, 1, 2].map((i) => column("float32", 64, (k) => Math.sin(k / (4 + i + device)))) };
  if (name === "label") return { kind: "labels", values: [0, 1, 2, 3, 5, 8, 9], counts: [3, 6, 2, 4, 9, 5, 3].map((n) => n + device) };
  return { kind: "numbers", values: [0.5, 1, 0.25, 1e-7, null].slice(0, rows) };
}

function ring(seed) {
  const pixel = (i) => {
    const [x, y] = [(i % 8) - 3.5, Math.floor(i / 8) - 3.5];
    return Math.max(0, Math.round(255 - 120 * Math.abs(Math.hypot(x * (1 + (seed % 3) / 3), y) - 2.5)));
  };
  return { width: 8, height: 8, low: 0, high: 1, pixels: column("uint8", 64, pixel) };
}

export function scopes(rows = [32, 32], looks = 40) {
  return {
    type: "scopes",
    devices: deviceNames(rows.length),
    strategy: "AllReduce",
    memory: { step: column("float64", 0), bytes: rows.map(() => column("float64", 0)) },
    drops: { step: column("float64", 0), bytes: rows.map(() => column("float64", 0)), cause: [] },
    feeds: {
      step: column("float64", looks, (i) => (i + 1) * 10),
      rows: rows.map((n) => column("float32", looks, (i) => (i === looks - 1 ? Math.ceil(n / 2) : n))),
    },
    live: [],
    totals: [],
  };
}

// `nan`: the bucket from which the loss is NaN; `diverges`: from which it grows without end.
export function curves(run = "run-1", { label = "digits", buckets = 400, width = 1, names = ["loss", "accuracy"], seed = 1, nan = null, diverges = null, rates = 60 } = {}) {
  const mean = (name, i) => {
    const at = i / buckets;
    const wobble = noise(i, seed) * 0.06;
    return name === "accuracy" ? 1 - 0.9 * Math.exp(-4 * at * seed) + wobble / 3 : 2.3 * Math.exp(-3 * at * seed) + 0.08 + wobble + 0.06;
  };
  const series = (name) => {
    const grown = (i) => (diverges !== null && name === "loss" && i > diverges ? Math.min(1e12, 1.3 ** (i - diverges)) : 1);
    const value = (i) => (nan !== null && name === "loss" && i >= nan ? NaN : mean(name, i) * grown(i));
    return {
      step: column("float64", buckets, (i) => (i + 1) * width),
      mean: column("float32", buckets, value),
      low: column("float32", buckets, (i) => value(i) - 0.05),
      high: column("float32", buckets, (i) => value(i) + 0.08),
    };
  };
  return {
    type: "curves",
    run,
    label,
    width,
    series: Object.fromEntries(names.map((name) => [name, series(name)])),
    rate: {
      step: column("float64", rates, (i) => ((i + 1) * buckets * width) / rates),
      value: column("float32", rates, (i) => 80 + seed * 5 + noise(i, seed) * 8),
    },
  };
}

// `n` runs at once, with the state that lists them.
export function runs(n, options = {}) {
  const ids = Array.from({ length: n }, (_, i) => `run-${i + 1}`);
  const labels = ids.map((_, i) => `lr ${(0.01 * 2 ** i).toPrecision(2)}`);
  const list = ids.map((id, i) => ({ id, label: labels[i], state: i === n - 1 ? "running" : "done", steps: 1000 }));
  const current = state("running", { id: ids[n - 1], name: labels[n - 1] }, { runs: list });
  return [current, ...ids.map((id, i) => curves(id, { label: labels[i], seed: 0.7 + i * 0.3, ...options }))];
}

// Everything at once.
export function all() {
  return [...runs(3), sample(), scopes()];
}
