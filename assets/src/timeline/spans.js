// The spans of one step by position: what ran, where, how long. Times are µs since the step began.
// Nodes are known only while the graph they count in is the one on the page.
import { opKind } from "../draw/colors.js";

export class Spans {
  constructor(sample, graph = null, devices = null) {
    const { start = [], end = [] } = sample.spans ?? {};
    this.sample = sample;
    this.graph = graph && graph.id === sample.graph ? graph : null;
    this.devices = this.graph?.devices ?? sample.feeds?.devices ?? devices ?? [];
    this.start = start;
    this.end = end;
    this.count = start.length;
    this.nodeCount = this.graph?.node.type.length ?? 0;
    this.duration = Math.max((sample.seconds ?? 0) * 1e6, latest(end), 1e-3);
    this.members = grouped(sample.members);
    this.kinds = Array.from({ length: this.count }, (_, i) => this.kindOf(i));
    this.byNode = null;
    [this.outer, this.inner] = this.nested();
    this.arrivals = arrivalsOf(sample.arrivals);
  }

  // "forward", "backward", "optimize", "server", "collective", "wait", or "other" where nothing is known.
  kindOf(i) {
    if (this.sample.spans.wait?.[i]) return "wait";
    if (this.sample.spans.collective?.[i] || this.device(i) < 0) return "collective";
    const node = this.nodes(i)[0];
    if (node === undefined) return "other";
    const { tables, node: columns } = this.graph;
    return opKind(tables.type[columns.type[node]], tables.role[columns.role[node]] ?? "");
  }

  device(i) {
    return this.sample.spans.device?.[i] ?? 0;
  }

  // Whether several processes made the step, and which of them told of a span.
  get hasProcesses() {
    return this.sample.spans?.process !== undefined;
  }

  process(i) {
    return this.sample.spans?.process?.[i] ?? 0;
  }

  thread(i) {
    return this.sample.spans.thread?.[i] ?? 0;
  }

  lasts(i) {
    return this.end[i] - this.start[i];
  }

  // The same without the collectives that an op does along with its own work.
  own(i) {
    return Math.max(0, this.lasts(i) - (this.inner.get(i) ?? 0));
  }

  share(i) {
    return this.own(i) / this.duration;
  }

  // By collective the op on its thread in which it lies, and by op how long collectives lie in it.
  nested() {
    const outer = new Map();
    const inner = new Map();
    const positions = [...Array(this.count).keys()];
    for (const i of positions.filter((one) => this.within(one))) {
      const together = (op) => Math.min(this.end[op], this.end[i]) - Math.max(this.start[op], this.start[i]);
      const there = positions.filter(
        (op) =>
          !["collective", "wait"].includes(this.kinds[op]) &&
          this.thread(op) === this.thread(i) &&
          this.process(op) === this.process(i) &&
          together(op) > 0,
      );
      for (const op of there) inner.set(op, (inner.get(op) ?? 0) + together(op));
      there.sort((a, b) => together(b) - together(a));
      if (there.length) outer.set(i, there[0]);
    }
    return [outer, inner];
  }

  // All nodes of the graph that this span stands for, or those of them on one device; the one to select comes first.
  nodes(i, device = -1) {
    if (!this.graph) return [];
    const node = this.sample.spans.node?.[i] ?? -1;
    const members = this.members.get(i) ?? [];
    const all = (node < 0 || members.includes(node) ? members : [node, ...members]).filter(
      (one) => one < this.nodeCount,
    );
    if (device < 0 || all.length < 2) return all;
    const there = all.filter((one) => this.graph.node.device?.[one] === device);
    return there.length ? there : all;
  }

  // Ops of several devices may run as one; a collective belongs to none.
  devicesOf(i) {
    if (this.kinds[i] === "collective") return [];
    const nodeDevices = this.nodes(i).map((node) => this.graph.node.device?.[node] ?? this.device(i));
    return [...new Set([this.device(i), ...nodeDevices])];
  }

  // "mul + elementwise_add + relu"; what several devices ran as one is "mul × 2 + relu × 2".
  name(i, device = -1) {
    const label = this.sample.labels?.[this.sample.spans.label?.[i]];
    if (this.kinds[i] === "wait") return label ? `wait for ${label}` : "wait";
    const { tables, node } = this.graph ?? {};
    const types = this.nodes(i, device).map((one) => tables.type[node.type[one]]);
    if (!types.length) return spaced(label ?? "unknown op");
    return counted(types);
  }

  layers(i, device = -1) {
    const { tables, node } = this.graph ?? {};
    return [...new Set(this.nodes(i, device).map((one) => tables.layer?.[node.layer?.[one]]))].filter(Boolean);
  }

  // How long what each device contributed to a collective lay there before it began: [{device, at, waited} …], µs.
  waits(i) {
    return (this.arrivals.get(i) ?? []).map(({ device, at }) => ({ device, at, waited: this.start[i] - at }));
  }

  // Whether a collective is done by ops along with their own work.
  within(i) {
    return Boolean(this.sample.spans.within?.[i]);
  }

  // Of what the nodes write, null where it is not known.
  bytes(i, device = -1) {
    const nodes = this.nodes(i, device);
    return nodes.length ? nodes.reduce((sum, one) => sum + (this.graph.node.bytes?.[one] ?? 0), 0) : null;
  }

  deviceLabel(device) {
    return this.devices[device] ?? `device ${device}`;
  }

  // "CPUPlace(1)", a list, or for a collective "all 4 devices".
  where(i) {
    if (this.device(i) >= 0)
      return this.devicesOf(i)
        .map((device) => this.deviceLabel(device))
        .join(", ");
    const taking = this.across(this.nodes(i));
    if (taking.length && taking.length < this.devices.length) return taking.map((d) => this.deviceLabel(d)).join(", ");
    return this.devices.length > 1 ? `all ${this.devices.length} devices` : this.deviceLabel(0);
  }

  across(nodes) {
    const { node = [], device = [] } = this.graph?.across ?? {};
    const devices = new Set();
    for (let k = 0; k < node.length; k++) if (nodes.includes(node[k])) devices.add(device[k]);
    return [...devices].sort((a, b) => a - b);
  }

  // Positions of the spans that stand for a node.
  of(node) {
    if (node == null) return [];
    this.byNode ??= this.index();
    return this.byNode.get(node) ?? [];
  }

  index() {
    const byNode = new Map();
    for (let i = 0; i < this.count; i++) {
      for (const node of this.nodes(i)) byNode.has(node) ? byNode.get(node).push(i) : byNode.set(node, [i]);
    }
    return byNode;
  }

  // The op that took longest, collectives and waits aside; -1 where there is none.
  longest() {
    let longest = -1;
    for (let i = 0; i < this.count; i++) {
      if (
        this.kinds[i] !== "collective" &&
        this.kinds[i] !== "wait" &&
        (longest < 0 || this.own(i) > this.own(longest))
      )
        longest = i;
    }
    return longest;
  }

  // How many there were, and µs during which at least one ran.
  collectives() {
    const positions = [...this.kinds.keys()].filter((i) => this.kinds[i] === "collective");
    return { number: positions.length, time: covered(this, positions) };
  }
}

// µs during which at least one of these spans ran.
export function covered(spans, positions) {
  let [total, until] = [0, -Infinity];
  for (const i of [...positions].sort((a, b) => spans.start[a] - spans.start[b])) {
    total += Math.max(0, spans.end[i] - Math.max(spans.start[i], until));
    until = Math.max(until, spans.end[i]);
  }
  return total;
}

function counted(types) {
  const numbers = new Map();
  for (const type of types) numbers.set(type, (numbers.get(type) ?? 0) + 1);
  return [...numbers].map(([type, number]) => (number > 1 ? `${type} × ${number}` : type)).join(" + ");
}

// Ops that run as one have a label such as "mul+relu".
const spaced = (label) => counted(label.split(/ ?\+ ?/));

function latest(end) {
  let last = 0;
  for (const time of end) last = Math.max(last, time);
  return last;
}

function arrivalsOf({ span = [], device = [], at = [] } = {}) {
  const bySpan = new Map();
  for (let k = 0; k < span.length; k++) {
    if (!bySpan.has(span[k])) bySpan.set(span[k], []);
    bySpan.get(span[k]).push({ device: device[k], at: at[k] });
  }
  return bySpan;
}

function grouped({ span = [], node = [] } = {}) {
  const bySpan = new Map();
  for (let k = 0; k < span.length; k++)
    bySpan.has(span[k]) ? bySpan.get(span[k]).push(node[k]) : bySpan.set(span[k], [node[k]]);
  return bySpan;
}
