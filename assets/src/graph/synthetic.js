// Graph messages made up for tests: they have the form of the kernel's, of any size. `wire` makes them fit to be sent.

const UPDATE = "sgd";

// `layers` × (mul, add, relu) on every device, their gradients, an all_reduce for each layer, an update on each device.
export function training({ devices = 4, layers = 3, id = 1, title = "mlp", fetch = false } = {}) {
  const draft = new Draft(id, title, devices);
  const everywhere = [...Array(devices).keys()];
  const kept = everywhere.map((device) => forward(draft, device, layers));
  const losses = everywhere.map((device) =>
    draft.op("mean", "Loss|Forward", "mean_0", device, [kept[device].at(-1).relu], ["mean_0.tmp_0"]),
  );
  let flow = everywhere.map((device) =>
    draft.op("mean_grad", "Backward", "mean_0", device, [losses[device]], [`fc_${layers - 1}.tmp_2@GRAD`]),
  );
  for (let layer = layers - 1; layer >= 0; layer--) flow = backward(draft, everywhere, layer, flow, kept);
  if (fetch) draft.op("fetch", "Forward", "mean_0", 0, losses, []);
  return draft.message();
}

function forward(draft, device, layers) {
  const kept = [];
  let x = null;
  for (let layer = 0; layer < layers; layer++) {
    const name = `fc_${layer}`;
    const mul = draft.op("mul", "Forward", name, device, [x ?? draft.fed("x", device)], [`${name}.tmp_0`]);
    const add = draft.op("elementwise_add", "Forward", name, device, [mul], [`${name}.tmp_1`]);
    x = draft.op("relu", "Forward", name, device, [add], [`${name}.tmp_2`]);
    kept.push({ mul, add, relu: x });
  }
  return kept;
}

function backward(draft, everywhere, layer, flow, kept) {
  const name = `fc_${layer}`;
  const grads = everywhere.map((device) => {
    const relu = draft.op(
      "relu_grad",
      "Backward",
      name,
      device,
      [flow[device], kept[device][layer].relu],
      [`${name}.tmp_1@GRAD`],
    );
    const add = draft.op("elementwise_add_grad", "Backward", name, device, [relu], [`${name}.tmp_0@GRAD`]);
    return draft.op("mul_grad", "Backward", name, device, [add, kept[device][layer].mul], [`${name}.w_0@GRAD`]);
  });
  if (everywhere.length === 1) {
    draft.op(UPDATE, "Optimize", name, 0, grads, [`${name}.w_0`]);
    return grads;
  }
  const sum = draft.op("all_reduce", "Backward", name, 0, grads, [`${name}.w_0@GRAD`], everywhere);
  for (const device of everywhere) {
    const update = draft.op(UPDATE, "Optimize", name, device, [sum], [`${name}.w_0`]);
    draft.order(kept[device][layer].mul, update);
  }
  return grads;
}

// Convolutions with pooling between them, trained on two devices.
export function convolutions({ devices = 2, blocks = 4, id = 2 } = {}) {
  const draft = new Draft(id, "cnn", devices);
  const everywhere = [...Array(devices).keys()];
  const ends = everywhere.map((device) => {
    let x = draft.fed("image", device);
    for (let k = 0; k < blocks; k++) {
      x = draft.op("conv2d", "Forward", `conv2d_${k}`, device, [x], [`conv2d_${k}.tmp_0`]);
      x = draft.op("relu", "Forward", `conv2d_${k}`, device, [x], [`conv2d_${k}.tmp_1`]);
      x = draft.op("pool2d", "Forward", `pool2d_${k}`, device, [x], [`pool2d_${k}.tmp_0`]);
    }
    return draft.op("mean", "Loss|Forward", "mean_0", device, [x], ["mean_0.tmp_0"]);
  });
  let flow = ends;
  for (let k = blocks - 1; k >= 0; k--) {
    flow = everywhere.map((device) => {
      const pool = draft.op(
        "pool2d_grad",
        "Backward",
        `conv2d_${k}`,
        device,
        [flow[device]],
        [`conv2d_${k}.tmp_1@GRAD`],
      );
      return draft.op("conv2d_grad", "Backward", `conv2d_${k}`, device, [pool], [`conv2d_${k}.w_0@GRAD`]);
    });
    const sum = draft.op("fused_all_reduce", "Backward", `conv2d_${k}`, 0, flow, [`conv2d_${k}.w_0@GRAD`], everywhere);
    for (const device of everywhere)
      draft.op("momentum", "Optimize", `conv2d_${k}`, device, [sum], [`conv2d_${k}.w_0`]);
  }
  return draft.message();
}

// One device, forward only.
export function inference({ layers = 5, id = 3 } = {}) {
  const draft = new Draft(id, "inference", 1);
  const kept = forward(draft, 0, layers);
  draft.op("softmax", "Forward", "softmax_0", 0, [kept.at(-1).relu], ["softmax_0.tmp_0"]);
  return draft.message();
}

export const nothing = () => new Draft(9, "empty", 0).message();

// A sample in which every node took (1 + its number mod 7) × 10 µs, device after device in threads of their own.
export function sampleOf(graph, step = 1) {
  const count = graph.node.label.length;
  const clock = new Float64Array(Math.max(1, graph.devices.length));
  const start = new Float32Array(count);
  const end = new Float32Array(count);
  for (let node = 0; node < count; node++) {
    const device = graph.node.device[node];
    start[node] = clock[device];
    end[node] = clock[device] += (1 + (node % 7)) * 10;
  }
  const nodes = Int32Array.from({ length: count }, (_, node) => node);
  return {
    type: "sample",
    step,
    graph: graph.id,
    seconds: Math.max(...clock) / 1e6,
    at: 0,
    feeds: null,
    spans: {
      node: nodes,
      device: graph.node.device,
      thread: graph.node.device,
      start,
      end,
      collective: new Uint8Array(count),
      label: new Int32Array(count),
    },
    labels: [""],
    members: { span: new Int32Array(0), node: new Int32Array(0) },
  };
}

// Typed arrays as tests/assets/page.html takes them.
export function wire(part) {
  if (ArrayBuffer.isView(part)) return { $: Array.from(part), dtype: DTYPES.get(part.constructor) };
  if (Array.isArray(part)) return part.map(wire);
  if (part === null || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, wire(inner)]));
}

// A graph of one of the functions above, ready to be sent; `sampled` has a sample of it after it.
export const onWire = (name, options) => wire(MADE[name](options));

export function sampled(name, options, change = {}) {
  const graph = MADE[name](options);
  return [graph, { ...sampleOf(graph), ...change }].map(wire);
}

const MADE = { training, convolutions, inference, nothing };

const DTYPES = new Map([
  [Int32Array, "int32"],
  [Float32Array, "float32"],
  [Float64Array, "float64"],
  [Uint8Array, "uint8"],
]);

class Draft {
  constructor(id, title, devices) {
    Object.assign(this, { id, title, places: Array.from({ length: devices }, (_, k) => `CPUPlace(${k})`) });
    this.tables = {
      type: [],
      role: [],
      layer: [],
      site: ["Cell In[2], line 3", "Cell In[2], line 5"],
      dtype: ["float32"],
    };
    this.nodes = [];
    this.values = [];
    this.pairs = { across: [], read: [], write: [], edge: [] };
  }

  place(table, text) {
    const found = this.tables[table].indexOf(text);
    return found >= 0 ? found : this.tables[table].push(text) - 1;
  }

  fed(name, device) {
    return { value: this.value(name, device, true), node: -1 };
  }

  value(name, device, data = false) {
    return this.values.push({ name, device, version: 0, data }) - 1;
  }

  // Reads values, writes new ones; the result is the first of them together with the node.
  op(type, role, layer, device, reads, writes, across = []) {
    const node = this.nodes.length;
    const numbers = {
      type: this.place("type", type),
      role: this.place("role", role),
      layer: this.place("layer", layer),
    };
    this.nodes.push({
      ...numbers,
      site: node % 2,
      label: `${type} ${writes[0] ?? this.values[reads[0].value].name}`,
      device,
    });
    for (const read of reads) {
      this.pairs.read.push([node, read.value]);
      if (read.node >= 0) this.pairs.edge.push([read.node, node, 0]);
    }
    const values = writes.map((name) => this.value(name, device));
    for (const value of values) this.pairs.write.push([node, value]);
    for (const each of across) this.pairs.across.push([node, each]);
    return { node, value: values[0] };
  }

  order(before, after) {
    this.pairs.edge.push([before.node, after.node, 1]);
  }

  message() {
    const { nodes, values, pairs } = this;
    const ints = (rows, pick) => Int32Array.from(rows, pick);
    const pair = (rows, [a, b]) => ({ [a]: ints(rows, (row) => row[0]), [b]: ints(rows, (row) => row[1]) });
    return {
      type: "graph",
      id: this.id,
      title: this.title,
      devices: this.places,
      fetches: [],
      tables: this.tables,
      node: {
        ...Object.fromEntries(
          ["type", "role", "layer", "site", "device"].map((name) => [name, ints(nodes, (node) => node[name])]),
        ),
        label: nodes.map((node) => node.label),
        bytes: Float64Array.from(nodes, (_, node) => 1024 * (1 + (node % 5))),
        flops: new Float64Array(nodes.length),
      },
      across: pair(pairs.across, ["node", "device"]),
      value: {
        name: values.map((value) => value.name),
        device: ints(values, (value) => value.device),
        version: ints(values, (value) => value.version),
        shape: values.map(() => [-1, 32]),
        dtype: new Int32Array(values.length),
        bytes: new Float64Array(values.length).fill(1024),
        persistable: Uint8Array.from(values, (value) => (/\.[wb]_\d+$/.test(value.name) ? 1 : 0)),
        data: Uint8Array.from(values, (value) => (value.data ? 1 : 0)),
      },
      read: pair(pairs.read, ["node", "value"]),
      write: pair(pairs.write, ["node", "value"]),
      edge: { ...pair(pairs.edge, ["source", "target"]), order: Uint8Array.from(pairs.edge, (row) => row[2]) },
    };
  }
}
