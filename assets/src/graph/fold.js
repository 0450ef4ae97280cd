// What is folded into one box: the ops of one layer in a row on a lane, such layers when they repeat, lone ops in a row,
// and all of a lane, so that a page shows from end to end what devices do alone and where they meet.
import { COLLECTIVE, KINDS } from "./model.js";

const SMALL = 40; // nodes; so many are shown unfolded
const FEW_COLLECTIVES = 12;
const LONGEST_PERIOD = 32; // layers of one block of a repeated pattern
const REPEATS = 3; // fewer are not worth a box
const COLUMNS = 8; // boxes side by side that a page has room for

// A group: {index, lane, level: "lane" | "layer" | "repeat" | "few", title, children: nodes (numbers) and groups, nodes, parent}.
export class Folds {
  constructor(model) {
    this.model = model;
    this.groups = [];
    this.parent = new Int32Array(model.count).fill(-1); // the innermost group of every node
    this.lanes = lanesOf(model).map((nodes, lane) => {
      const kinds =
        lane === model.shared
          ? [(n) => model.kind[n] === COLLECTIVE, (n) => model.kind[n] !== COLLECTIVE]
          : [() => true];
      const entries = kinds.flatMap((kind) => this.fold(nodes.filter(kind), lane));
      return lane === model.shared ? entries : this.whole(entries, nodes, lane);
    });
  }

  // All boxes of a lane in one.
  whole(entries, nodes, lane) {
    if (entries.length < REPEATS) return entries;
    const group = this.add({ lane, level: "lane", parent: -1, nodes, children: entries, title: KINDS[lane % 3] });
    for (const entry of entries) {
      if (typeof entry === "number") this.parent[entry] = group.index;
      else entry.parent = group.index;
    }
    return [group];
  }

  fold(nodes, lane) {
    const runs = runsOf(nodes, (n) => this.model.message.node.layer[n]);
    const codes = new Map();
    const pattern = runs.map((run) => code(codes, run.map((n) => this.model.message.node.type[n]).join()));
    const entries = [];
    const lone = []; // layers of a single op, waiting for others beside them
    for (const { start, period, times } of repeatsOf(pattern)) {
      const part = runs.slice(start, start + period * times);
      if (times === 1 && part[0].length === 1) {
        lone.push(part[0][0]);
        continue;
      }
      entries.push(...this.few(lone.splice(0), lane));
      entries.push(times === 1 ? this.layer(part[0], lane, -1) : this.repeat(part, lane, period, times));
    }
    return [...entries, ...this.few(lone, lane)];
  }

  // Some ops in a row that belong to no larger layer, as those of the loss: one box.
  few(nodes, lane) {
    if (nodes.length < REPEATS) return nodes;
    const title =
      lane === this.model.shared ? this.typeTitle(nodes) : `${cut(this.model.type(nodes[0]))} + ${nodes.length - 1}`;
    const group = this.add({ lane, level: "few", parent: -1, nodes, children: nodes, title });
    for (const n of nodes) this.parent[n] = group.index;
    return [group];
  }

  layer(run, lane, parent) {
    if (run.length === 1) {
      this.parent[run[0]] = parent;
      return run[0];
    }
    const group = this.add({ lane, level: "layer", parent, nodes: run, children: run, title: this.layerTitle(run) });
    for (const n of run) this.parent[n] = group.index;
    return group;
  }

  repeat(runs, lane, period, times) {
    const nodes = runs.flat();
    const group = this.add({
      lane,
      level: "repeat",
      parent: -1,
      nodes,
      title: this.repeatTitle(runs.slice(0, period), nodes, times),
    });
    group.children = runs.map((run) => this.layer(run, lane, group.index));
    return group;
  }

  add(group) {
    group.index = this.groups.push(group) - 1;
    return group;
  }

  layerTitle(nodes) {
    return this.model.lane[nodes[0]] === this.model.shared ? this.typeTitle(nodes) : this.model.layer(nodes[0]);
  }

  repeatTitle(block, nodes, times) {
    if (this.model.lane[nodes[0]] === this.model.shared) return this.typeTitle(nodes);
    const stems = new Set(block.map((run) => stem(this.model.layer(run[0]))));
    return `${[...stems].slice(0, 3).join(" + ")}${stems.size > 3 ? " + …" : ""} × ${times}`;
  }

  typeTitle(nodes) {
    const types = [...new Set(nodes.map((n) => this.model.type(n)))];
    return `${types.join(" + ")} × ${nodes.length}`;
  }

  // The groups that are open when a graph is first shown.
  begin() {
    if (this.model.count <= SMALL) return this.all();
    const lanes = this.groups.filter((group) => group.level === "lane");
    const collectives = this.groups.filter((group) => this.model.kind[group.nodes[0]] === COLLECTIVE);
    const few = this.model.counts().kinds[COLLECTIVE] <= FEW_COLLECTIVES;
    const shown = [...(this.isWide(lanes) ? [] : lanes), ...(few ? collectives : [])];
    return new Set(shown.map((group) => group.index));
  }

  // Whether a device's boxes would not fit side by side.
  isWide(lanes) {
    const boxes = new Map();
    for (const { lane, children } of lanes) {
      const device = Math.floor(lane / 3);
      boxes.set(device, (boxes.get(device) ?? 0) + children.length);
    }
    return Math.max(0, ...boxes.values()) > COLUMNS;
  }

  all() {
    return new Set(this.groups.keys());
  }

  // The groups that hide a node, outermost first.
  above(node) {
    const found = [];
    for (let k = this.parent[node]; k >= 0; k = this.groups[k].parent) found.unshift(k);
    return found;
  }

  // Graphs with the same text here have the same groups in the same order.
  shape() {
    const groups = this.groups.map((group) => [group.lane, group.level, group.nodes[0], group.nodes.length].join(":"));
    return [this.model.count, this.model.message.edge.source.length, this.model.lanes, ...groups].join(" ");
  }

  // What is to be drawn: items {node or -1, group or null, lane, rank}, the item of every node, the open groups.
  visible(open) {
    const items = [];
    const itemOf = new Int32Array(this.model.count);
    const opened = [];
    const show = (entry, lane) => {
      if (typeof entry === "number") {
        itemOf[entry] =
          items.push({ node: entry, group: null, lane, rank: this.model.rank[entry], nodes: [entry] }) - 1;
      } else if (open.has(entry.index)) {
        opened.push(entry);
        for (const child of entry.children) show(child, lane);
      } else {
        const at =
          items.push({ node: -1, group: entry, lane, rank: this.model.rank[entry.nodes[0]], nodes: entry.nodes }) - 1;
        for (const n of entry.nodes) itemOf[n] = at;
      }
    };
    this.lanes.forEach((entries, lane) => entries.forEach((entry) => show(entry, lane)));
    return { items, itemOf, opened };
  }
}

const cut = (text) => (text.length > 12 ? `${text.slice(0, 11)}…` : text);

export const stem = (layer) => layer.replace(/_\d+$/, "") || layer;

function lanesOf(model) {
  const order = new Int32Array(model.count);
  model.rank.forEach((rank, n) => {
    order[rank] = n;
  });
  const lanes = Array.from({ length: model.lanes }, () => []);
  for (const n of order) lanes[model.lane[n]].push(n);
  return lanes;
}

// Neighbours with the same key together.
function runsOf(nodes, keyOf) {
  const runs = [];
  for (const n of nodes) {
    if (runs.length && keyOf(runs.at(-1)[0]) === keyOf(n)) runs.at(-1).push(n);
    else runs.push([n]);
  }
  return runs;
}

function code(codes, text) {
  if (!codes.has(text)) codes.set(text, codes.size);
  return codes.get(text);
}

// Splits a row of codes where a block of up to LONGEST_PERIOD codes repeats: {start, period, times}, from left to right.
export function repeatsOf(codes) {
  const alike = [];
  for (let period = 1; period <= Math.min(LONGEST_PERIOD, codes.length / REPEATS); period++)
    alike[period] = agreements(codes, period);
  const parts = [];
  for (let start = 0; start < codes.length;) {
    let best = { start, period: 1, times: 1 };
    for (let period = 1; period < alike.length; period++) {
      const times = 1 + Math.floor(alike[period][start] / period);
      if (times >= REPEATS && times * period > best.times * best.period) best = { start, period, times };
    }
    parts.push(best);
    start += best.period * best.times;
  }
  return parts;
}

// How many codes in a row, from each one on, are the same as those `period` later.
function agreements(codes, period) {
  const found = new Int32Array(codes.length + 1);
  for (let k = codes.length - period - 1; k >= 0; k--) found[k] = codes[k] === codes[k + period] ? found[k + 1] + 1 : 0;
  return found;
}
