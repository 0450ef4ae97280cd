// Messages such as a kernel sends, for tests and for looking at the panels: layers on several devices, a collective per
// layer and an update per device. The same arguments give the same messages. Columns are {$: [numbers], dtype}, as
// `receive` of the page without a kernel takes them; `decoded` makes typed arrays of them.

const TYPES = ["mul", "elementwise_add", "relu", "mul_grad", "elementwise_add_grad", "relu_grad", "all_reduce", "sgd"];
const ROLES = ["Forward", "Backward", "Optimize"];
const FORWARD = [0, 1, 2];
const BACKWARD = [5, 4, 3];
const [ALL_REDUCE, SGD] = [6, 7];

const int32 = (values) => ({ $: values, dtype: "int32" });
const float32 = (values) => ({ $: values, dtype: "float32" });
const float64 = (values) => ({ $: values, dtype: "float64" });
const uint8 = (values) => ({ $: values, dtype: "uint8" });
const range = (n) => Array.from({ length: n }, (_, i) => i);
const devicesOf = (n) => range(n).map((i) => `CPUPlace(${i})`);

// Ends of the numbers are the same in every browser: no Math.random.
function dice(seed) {
  let state = seed * 2654435761 + 12345;
  return (low, high) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return low + (state / 2 ** 32) * (high - low);
  };
}

// Nodes in order: forward, backward and update of every device and layer, then the collectives.
export function graphMessage({ id = 1, devices = 2, layers = 3 } = {}) {
  const nodes = [];
  for (const device of range(devices)) {
    for (const layer of range(layers)) {
      for (const type of FORWARD) nodes.push({ type, role: 0, layer, device });
      for (const type of BACKWARD) nodes.push({ type, role: 1, layer, device });
      nodes.push({ type: SGD, role: 2, layer, device });
    }
  }
  for (const layer of range(layers)) nodes.push({ type: ALL_REDUCE, role: 1, layer, device: 0 });
  const shared = nodes.flatMap(({ type }, node) =>
    type === ALL_REDUCE ? range(devices).map((device) => [node, device]) : [],
  );
  const column = (of) => nodes.map(of);
  return {
    type: "graph",
    id,
    title: "digits",
    devices: devicesOf(devices),
    fetches: ["loss"],
    tables: {
      type: TYPES,
      role: ROLES,
      layer: range(layers).map((n) => `fc_${n}`),
      site: ["Cell In[3], line 7"],
      dtype: ["float32"],
    },
    node: {
      type: int32(column((n) => n.type)),
      role: int32(column((n) => n.role)),
      layer: int32(column((n) => n.layer)),
      site: int32(column(() => 0)),
      label: column((n) => TYPES[n.type]),
      device: int32(column((n) => n.device)),
      bytes: float64(column((_, i) => 1024 * (i + 1))),
      flops: float64(column(() => 1e6)),
    },
    across: { node: int32(shared.map(([node]) => node)), device: int32(shared.map(([, device]) => device)) },
    value: {
      name: [],
      device: int32([]),
      version: int32([]),
      shape: [],
      dtype: int32([]),
      bytes: float64([]),
      persistable: uint8([]),
      data: uint8([]),
    },
    read: { node: int32([]), value: int32([]) },
    write: { node: int32([]), value: int32([]) },
    edge: { source: int32([]), target: int32([]), order: uint8([]) },
  };
}

// A step of that graph. Ops of a layer take `scale` µs, about; forward ops of a layer are one span if `fused`.
export function sampleMessage({
  graph = 1,
  step = 100,
  devices = 2,
  layers = 3,
  threads = 1,
  scale = 100,
  fused = true,
  slowest = null,
  waits = false,
} = {}) {
  const draw = dice(step + 1);
  const per = layers * 7;
  const nodeOf = (device, layer, k) => device * per + layer * 7 + k;
  const spans = [];
  const clocks = range(devices).map(() => Array(threads).fill(draw(0, scale / 4)));
  const run = (device, layer, nodes, types) => {
    const thread = layer % threads;
    const start = clocks[device][thread];
    const end = start + draw(0.6, 1.4) * scale * types.length * 0.5;
    clocks[device][thread] = end + draw(0.02, 0.3) * scale;
    spans.push({ nodes, device, thread, start, end, label: types.map((t) => TYPES[t]).join(" + "), collective: 0 });
    return end;
  };
  const forward = (device, layer) => {
    if (fused)
      return run(
        device,
        layer,
        [0, 1, 2].map((k) => nodeOf(device, layer, k)),
        FORWARD,
      );
    return FORWARD.map((type, k) => run(device, layer, [nodeOf(device, layer, k)], [type])).at(-1);
  };
  for (const device of range(devices)) for (const layer of range(layers)) forward(device, layer);
  for (const layer of range(layers).reverse()) {
    const ends = range(devices).map((device) =>
      BACKWARD.map((type, k) => run(device, layer, [nodeOf(device, layer, 3 + k)], [type])).at(-1),
    );
    const start = Math.max(...ends);
    const end = start + draw(0.3, 0.9) * scale;
    if (devices > 1)
      spans.push({
        nodes: [devices * per + layer],
        device: -1,
        thread: 0,
        start,
        end,
        label: "all_reduce",
        collective: 1,
        arrivals: ends.map((at, device) => ({ device, at })),
      });
    if (waits)
      for (const device of range(devices)) {
        const thread = layer % threads;
        const label = `op 'relu_grad' of device ${1 - device}`;
        if (ends[device] < start)
          spans.push({ nodes: [-1], device, thread, start: ends[device], end: start, label, collective: 0, wait: 1 });
        clocks[device][thread] = Math.max(clocks[device][thread], start);
      }
  }
  const ready = Math.max(0, ...spans.map((span) => span.end));
  clocks.forEach((clock) => clock.fill(ready + 1));
  for (const device of range(devices))
    for (const layer of range(layers)) run(device, layer, [nodeOf(device, layer, 6)], [SGD]);
  return { type: "sample", step, graph, at: step / 100, slowest, ...feedsOf(devices), ...packed(spans) };
}

function feedsOf(devices) {
  const each = (value) => range(devices).map(() => value);
  return {
    feeds: {
      devices: devicesOf(devices),
      names: ["x"],
      rows: { x: each(16) },
      first: { x: range(devices).map((d) => d * 16) },
      shapes: { x: each([16, 64]) },
      dtypes: { x: "float32" },
      nbytes: each(4096),
      previews: { x: each({ kind: "numbers", values: [0.1, 0.2] }) },
    },
  };
}

function packed(spans) {
  const labels = [...new Set(spans.map((span) => span.label))];
  const several = spans.flatMap(({ nodes }, span) => (nodes.length > 1 ? nodes.map((node) => ({ span, node })) : []));
  const arrived = spans.flatMap(({ arrivals = [] }, span) => arrivals.map((one) => ({ span, ...one })));
  return {
    seconds: Math.max(0, ...spans.map((span) => span.end)) / 1e6 + 5e-6,
    labels,
    spans: {
      node: int32(spans.map((s) => s.nodes[0])),
      device: int32(spans.map((s) => s.device)),
      thread: int32(spans.map((s) => s.thread)),
      start: float32(spans.map((s) => s.start)),
      end: float32(spans.map((s) => s.end)),
      collective: uint8(spans.map((s) => s.collective)),
      wait: uint8(spans.map((s) => s.wait ?? 0)),
      within: uint8(spans.map(() => 0)),
      label: int32(spans.map((s) => labels.indexOf(s.label))),
    },
    members: { span: int32(several.map((m) => m.span)), node: int32(several.map((m) => m.node)) },
    arrivals: {
      span: int32(arrived.map((a) => a.span)),
      device: int32(arrived.map((a) => a.device)),
      at: float32(arrived.map((a) => a.at)),
    },
  };
}

export function samplesMessage({ steps = range(20).map((n) => n * 10 + 10), ...made } = {}) {
  const durations = steps.map((step) => sampleMessage({ ...made, step }).seconds);
  return { type: "samples", step: int32(steps), seconds: float32(durations) };
}

// A graph, its newest sample and the list of samples.
export function everything({ steps = range(20).map((n) => n * 10 + 10), ...made } = {}) {
  return [graphMessage(made), samplesMessage({ steps, ...made }), sampleMessage({ ...made, step: steps.at(-1) })];
}

// Memory that grows by `grows` bytes a step and device, dropped every `every` steps.
export function scopesMessage({ devices = 2, steps = 1000, every = 100, grows = 12_288, strategy = "AllReduce" } = {}) {
  const step = range(Math.floor(steps / 5)).map((n) => (n + 1) * 5);
  const held = (at) => (every ? ((at - 1) % every) + 1 : at) * grows;
  const drops = every ? range(Math.floor(steps / every)).map((n) => (n + 1) * every) : [];
  const each = (columns) => range(devices).map((device) => float64(columns(device)));
  const state = strategy === "AllReduce" ? [8e6, 8e6 / devices] : [8e6 / devices, 8e6];
  const names = ["AllReduce", "Reduce"];
  if (strategy === "Reduce") names.reverse();
  return {
    type: "scopes",
    devices: devicesOf(devices),
    strategy,
    memory: { step: float64(step), bytes: each((device) => step.map((at) => held(at) * (1 + device * 0.1))) },
    drops: {
      step: float64(drops),
      bytes: each(() => drops.map(() => every * grows)),
      cause: drops.map((_, k) => (k % 4 === 3 ? "call" : "interval")),
    },
    feeds: { step: float64(step), rows: range(devices).map(() => float32(step.map(() => 16))) },
    live: liveOf(devices),
    totals: names.map((name, k) => ({
      strategy: name,
      devices: range(devices).map(() => ({ parameters: 4e6, state: state[k], gradients: 4e6 })),
    })),
  };
}

function liveOf(devices) {
  const kinds = [
    ["fc_0.w_0", "parameter", [1024, 512], 4],
    ["fc_0.w_0_moment_0", "state", [1024, 512], 4],
    ["fc_1.tmp_2", "temporary", [64, 512], 4],
    ["x", "feed", [64, 1024], 4],
    ["fc_1.w_0", "parameter", [512, 10], 4],
    ["label", "feed", [64, 1], 8],
  ];
  const all = range(devices).flatMap((device) =>
    kinds.map(([name, kind, shape, size]) => ({
      name,
      device,
      kind,
      shape,
      dtype: size === 8 ? "int64" : "float32",
      bytes: shape[0] * shape[1] * size,
    })),
  );
  return all.sort((a, b) => b.bytes - a.bytes);
}

const ARRAYS = { int32: Int32Array, float32: Float32Array, float64: Float64Array, uint8: Uint8Array };

export function decoded(part) {
  if (Array.isArray(part)) return part.map(decoded);
  if (part === null || typeof part !== "object") return part;
  if ("$" in part) return ARRAYS[part.dtype].from(part.$);
  return Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, decoded(inner)]));
}
