// Where everything goes: a lane for each device and role, columns by topological depth; work is O(nodes + edges).
// Collectives have a lane of their own between the devices; from each a stem goes up and down to the devices' lanes.
import { BOX, ROW, bands } from "./bands.js";
import { joined } from "./edges.js";
import { COLLECTIVE } from "./model.js";

const ROWS = 4; // boxes of one column that lie on each other in a lane; more go beside
const STEM = 7;
const GUTTER = 20;
const LETTER = 6.6;
const [NARROW, WIDE, WIDEST] = [80, 150, 190];

// A scene: items with x, y, w, h (and stem {x, marks} in the lane between the devices), lines, frames of open groups,
// bands, size.
export function layout(model, folds, open) {
  const { items, itemOf, opened } = folds.visible(open);
  const lines = joined(model, items, itemOf);
  columnsOf(items, lines);
  for (const item of items) describe(model, item);
  const depth = items.reduce((most, item) => Math.max(most, item.column + 1), 0);
  const framed = opened.filter((group) => group.whole); // a frame around the others would be around strangers as well
  const inside = levels(framed, folds.groups);
  const { lanes, devices, height } = bands(
    model,
    rowsOf(items, model.lanes, depth),
    nesting(framed, inside, model.lanes),
  );
  const columns = place(items, lanes, depth, model);
  for (const item of items) if (model.isBetween(item.lane)) raise(model, item, lanes);
  const { shared, among } = model;
  const scene = { items, itemOf, lines, lanes, devices, columns, height, width: columns.end, shared, among };
  scene.frames = framed.map((group) => frameOf(group, inside.get(group), scene));
  route(scene);
  return scene;
}

// The longest way to an item from the start. Folding can make cycles: where nothing is ready, the item that comes first
// in the program goes on.
function columnsOf(items, lines) {
  const missing = Int32Array.from(items, (item, at) => lines.in.of(at).length);
  const order = [...items.keys()].sort((a, b) => items[a].rank - items[b].rank);
  const done = new Uint8Array(items.length);
  const ready = order.filter((at) => missing[at] === 0);
  for (const item of items) item.column = 0;
  for (let k = 0, next = 0; k < items.length; k++) {
    while (k === ready.length) {
      if (!done[order[next]]) ready.push(order[next]);
      next++;
    }
    finish(ready[k]);
  }
  items.forEach((item, at) => {
    if (!lines.in.of(at).length) item.column = before(at, items, lines);
  });

  function finish(at) {
    done[at] = 1;
    for (const k of lines.out.of(at)) {
      const to = lines.target[k];
      if (done[to]) continue;
      items[to].column = Math.max(items[to].column, items[at].column + 1);
      if (--missing[to] === 0) ready.push(to);
    }
  }
}

// What waits for nothing goes next to what waits for it.
function before(at, items, lines) {
  let least = Infinity;
  for (const k of lines.out.of(at)) least = Math.min(least, items[lines.target[k]].column);
  return Number.isFinite(least) ? Math.max(0, least - 1) : 0;
}

function describe(model, item) {
  const { node, group } = item;
  item.kind = model.kind[item.nodes[0]];
  item.devices =
    model.isBetween(item.lane) || model.toward.of(item.nodes[0]).length
      ? union(item.nodes.map((n) => model.bandsOf(n)))
      : [model.message.node.device[item.nodes[0]]];
  item.title = group ? group.title : model.type(node);
  item.detail = group ? `${item.nodes.length} ops: ${group.details.join(", ")}` : model.result(node);
  const letters = Math.max(item.title.length * LETTER, Math.min(item.detail.length, 16) * 5.8);
  item.w = Math.min(
    model.isBetween(item.lane) ? WIDEST : WIDE,
    Math.max(NARROW, Math.round(letters + (group ? 40 : 30))),
  );
  item.h = BOX;
}

const union = (lists) => [...new Set(lists.flat())].sort((a, b) => a - b);

// The rows a lane needs: as many as its fullest column has boxes, up to ROWS. Numbers the boxes of each column as well.
function rowsOf(items, lanes, depth) {
  const turns = new Int32Array(lanes * depth);
  const rows = new Int32Array(lanes);
  for (const item of items) {
    item.turn = turns[item.lane * depth + item.column]++;
    rows[item.lane] = Math.max(rows[item.lane], Math.min(ROWS, item.turn + 1));
  }
  return rows;
}

// How many levels of framed groups lie in each of them: its frame goes around theirs. `framed` has the outer ones first.
function levels(framed, groups) {
  const inside = new Map(framed.map((group) => [group, 0]));
  for (const group of [...framed].reverse()) {
    let around = groups[group.parent];
    while (around && !inside.has(around)) around = groups[around.parent];
    if (around) inside.set(around, Math.max(inside.get(around), inside.get(group) + 1));
  }
  return inside;
}

// How deep open groups lie in each other, for each lane: room for their names.
function nesting(framed, inside, lanes) {
  const deep = new Int32Array(lanes);
  for (const group of framed) deep[group.lane] = Math.max(deep[group.lane], 1 + inside.get(group));
  return deep;
}

// Gives every item its x and y; returns the columns' {x, start, members} for finding what is seen.
function place(items, lanes, depth, model) {
  const widths = new Float64Array(depth);
  const across = new Int32Array(depth).fill(1);
  const stems = new Int32Array(depth);
  for (const item of items) {
    item.beside = Math.floor(item.turn / ROWS);
    widths[item.column] = Math.max(widths[item.column], item.w);
    across[item.column] = Math.max(across[item.column], item.beside + 1);
    if (model.isBetween(item.lane)) stems[item.column] = Math.min(ROWS, stems[item.column] + 1);
  }
  const x = new Float64Array(depth);
  let end = 0;
  for (let column = 0; column < depth; column++) {
    x[column] = end + GUTTER + stems[column] * STEM;
    end = x[column] + across[column] * (widths[column] + GUTTER) - GUTTER;
  }
  for (const item of items) {
    const { column } = item;
    item.x = x[column] + item.beside * (widths[column] + GUTTER);
    item.y = lanes[item.lane].y + (item.turn % ROWS) * ROW;
    item.w = widths[column];
  }
  return { x, end: end + GUTTER, members: membersOf(items, depth) };
}

function membersOf(items, depth) {
  const members = Array.from({ length: depth }, () => []);
  items.forEach((item, at) => members[item.column].push(at));
  return members;
}

// The stem of a collective, left of its box, and a mark on it for each device that takes part.
function raise(model, item, lanes) {
  const role = model.role[item.nodes[0]];
  const x = item.x - GUTTER / 2 - (item.turn % ROWS) * STEM;
  const marks = item.devices
    .map((device) => ({ device, y: middle(model, lanes, device, role) }))
    .filter(({ y }) => y != null);
  const ys = [...marks.map(({ y }) => y), item.y + item.h / 2];
  item.stem = { x, marks, top: Math.min(...ys), bottom: Math.max(...ys) };
}

// Half way down the lane of a device and role; where that is not drawn, the nearest of the device that is.
function middle(model, lanes, device, role) {
  if (device >= model.firstServer) return lanes[model.laneOfServer(device - model.firstServer)].y + BOX / 2;
  const near = [role, 1, 0, 2, 3].map((kind) => lanes[COLLECTIVE * device + kind]).find((lane) => lane?.rows > 0);
  return near ? near.y + BOX / 2 : null;
}

// A frame around the boxes of an open group, with a tag to close it.
function frameOf(group, outer, { items, itemOf }) {
  const pad = 5 + 4 * outer;
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const n of group.nodes) {
    const { x, y, w, h } = items[itemOf[n]];
    [left, top, right, bottom] = [
      Math.min(left, x - pad),
      Math.min(top, y - pad),
      Math.max(right, x + w + pad),
      Math.max(bottom, y + h + pad),
    ];
  }
  const tag = { x: left, y: top - 13 - outer * 14, w: Math.min(right - left, group.title.length * 6 + 26), h: 13 };
  return { group, x: left, y: tag.y, w: right - left, h: bottom - tag.y, tag };
}

// Where lines begin and end, and which of them are so long that they are shown only when asked for.
const NEAR = 1; // columns
const NEAR_IN_LANE = 8;
const NEAR_COLLECTIVE = 4;

function route({ items, lines }) {
  const count = lines.source.length;
  lines.ends = new Float32Array(4 * count);
  lines.skip = new Uint8Array(count);
  lines.bow = new Float32Array(count);
  for (let k = 0; k < count; k++) {
    const [from, to] = [items[lines.source[k]], items[lines.target[k]]];
    const [x0, y0] = port(from, to, from.x + from.w);
    const [x1, y1] = port(to, from, to.x);
    lines.ends.set([x0, y0, x1, y1], 4 * k);
    const far = to.column - from.column;
    lines.skip[k] = far < 0 || far > reach(from, to) ? 1 : 0;
    if (from.lane === to.lane && far > 1 && y0 === y1) lines.bow[k] = Math.min(ROW * 0.7, 14 + far * 2);
  }
}

function reach(from, to) {
  if (from.stem || to.stem) return NEAR_COLLECTIVE;
  return from.lane === to.lane ? NEAR_IN_LANE : NEAR;
}

// Lines of a collective start and end on its stem, at the device of the other end.
function port(item, other, x) {
  if (!item.stem) return [x, item.y + item.h / 2];
  const mark = item.stem.marks.find(({ device }) => device === other.devices[0] && !other.stem);
  return mark ? [item.stem.x, mark.y] : [item.stem.x, item.y + item.h / 2];
}
