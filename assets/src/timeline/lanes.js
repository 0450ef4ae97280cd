// Lanes: one across devices, for the collectives (of several processes one for those of each, whose "thread" is the process), then one
// per device and thread. Spans of a lane that overlap get rows of their own;
// one that ran for several devices is in a lane of each. A place is {lane, row, position}: positions in the lanes, in
// the rows of that lane and in that row.
import { covered } from "./spans.js";

const PADDING = 4;
const ROW = 18; // where there are several in a lane
const SINGLE = 26; // two lines of text fit beside it

// [{label, device (-1: across devices), thread, rows: [[span …] …], busy, waiting: shares of the step}]
export function lanesOf(spans) {
  const byThread = new Map();
  const add = (i, device, thread) => {
    const key = `${device} ${thread}`;
    if (!byThread.has(key)) byThread.set(key, { device, thread, label: labelOf(spans, device, thread), spans: [] });
    byThread.get(key).spans.push(i);
  };
  for (let i = 0; i < spans.count; i++) {
    if (spans.kinds[i] === "collective") add(i, -1, spans.process(i));
    else for (const device of spans.devicesOf(i)) add(i, device, spans.thread(i));
  }
  const lanes = [...byThread.values()].sort((a, b) => a.device - b.device || a.thread - b.thread);
  return placed(lanes.map((lane) => filled(lane, spans)));
}

function labelOf(spans, device, thread) {
  if (device >= 0) return `${spans.deviceLabel(device)}, thread ${thread}`;
  return spans.hasProcesses ? `across devices, rank ${thread}` : "across devices";
}

function filled({ spans: positions, ...lane }, spans) {
  const share = (some) => Math.min(1, covered(spans, some) / spans.duration);
  const isWait = (i) => spans.kinds[i] === "wait";
  const busy = share(positions.filter((i) => !isWait(i)));
  const waiting = share(positions.filter(isWait));
  return { ...lane, busy, waiting, rows: rowsOf(positions, spans) };
}

// Each row holds spans in order of time that do not overlap.
function rowsOf(positions, spans) {
  const rows = [];
  const until = [];
  for (const i of positions.sort((a, b) => spans.start[a] - spans.start[b] || spans.end[b] - spans.end[a])) {
    let row = until.findIndex((end) => end <= spans.start[i]);
    if (row < 0) row = rows.push([]) - 1;
    rows[row].push(i);
    until[row] = spans.end[i];
  }
  return rows;
}

// Adds top, height and rowHeight in px; `top` counts from the first lane.
function placed(lanes) {
  let top = 0;
  for (const lane of lanes) {
    lane.rowHeight = lane.rows.length > 1 ? ROW : SINGLE;
    lane.top = top;
    lane.height = lane.rows.length * lane.rowHeight + 2 * PADDING;
    top += lane.height;
  }
  return lanes;
}

export const heightOf = (lanes) => (lanes.length ? lanes.at(-1).top + lanes.at(-1).height : 0);
export const rowTop = (lane, row) => lane.top + PADDING + row * lane.rowHeight;

// How the step's time went in a lane: "busy 60 %, waits 10 %, idle 30 %", "2 ops, 3 % of step time".
export const busyWords = ({ device, busy, waiting = 0, rows }) => {
  const [percent, waits] = [busy, waiting].map((share) => Math.round(share * 100));
  if (device < 0) return collectiveWords(rows.flat().length, busy);
  const idle = `idle ${Math.max(0, 100 - percent - waits)} %`;
  return [`busy ${percent} %`, waits && `waits ${waits} %`, idle].filter(Boolean).join(", ");
};

function collectiveWords(number, share) {
  const [ops, whose] = number === 1 ? ["1 op", "its"] : [`${number} ops`, "their"];
  if (!share) return `${ops}, no time of ${whose} own`;
  return `${ops}, ${share < 0.01 ? "below 1" : Math.round(share * 100)} % of step time`;
}

export const spanOf = (lanes, { lane, row, position }) => lanes[lane].rows[row][position];

// All places of a span; those on one device, if one is given and the span is there.
export function placesOf(lanes, span, device = -1) {
  const places = [];
  for (const [lane, { rows }] of lanes.entries()) {
    for (const [row, positions] of rows.entries()) {
      const position = positions.indexOf(span);
      if (position >= 0) places.push({ lane, row, position });
    }
  }
  const there = places.filter(({ lane }) => lanes[lane].device === device);
  return there.length ? there : places;
}

// The first position in a row whose span ends at or after `time`; the row's length if none does.
export function firstEnding(row, spans, time) {
  let [low, high] = [0, row.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans.end[row[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The position of the span of a row that is nearest to a time; -1 if none is at most `within` µs away.
export function nearest(row, spans, time, within = Infinity) {
  const at = firstEnding(row, spans, time);
  const away = (position) => Math.max(spans.start[row[position]] - time, time - spans.end[row[position]], 0);
  const [closest] = [at - 1, at].filter((position) => position in row).sort((a, b) => away(a) - away(b));
  return closest !== undefined && away(closest) <= within ? closest : -1;
}

// The place at a height (px from the first lane) and time, at most `within` µs beside its span; null if none is there.
export function placeAt(lanes, spans, y, time, within) {
  const lane = lanes.findIndex(({ top, height }) => y >= top && y < top + height);
  if (lane < 0) return null;
  const { top, rowHeight, rows } = lanes[lane];
  const row = Math.min(Math.max(Math.floor((y - top - PADDING) / rowHeight), 0), rows.length - 1);
  const position = nearest(rows[row], spans, time, within);
  return position < 0 ? null : { lane, row, position };
}

// The place an arrow key leads to from another; the same one at the end of the way.
export function neighbour(lanes, spans, from, key) {
  if (!from) return { lane: 0, row: 0, position: 0 };
  const last = lanes[from.lane].rows[from.row].length - 1;
  if (key === "Home") return { ...from, position: 0 };
  if (key === "End") return { ...from, position: last };
  if (key === "ArrowLeft") return { ...from, position: Math.max(from.position - 1, 0) };
  if (key === "ArrowRight") return { ...from, position: Math.min(from.position + 1, last) };
  return across(lanes, spans, from, key === "ArrowDown" ? 1 : -1);
}

// To the row below or above, at the same time.
function across(lanes, spans, from, by) {
  const rows = lanes.flatMap(({ rows: own }, lane) => own.map((_, row) => ({ lane, row })));
  const here = rows.findIndex(({ lane, row }) => lane === from.lane && row === from.row);
  const next = rows[here + by];
  if (!next) return from;
  const span = spanOf(lanes, from);
  const time = (spans.start[span] + spans.end[span]) / 2;
  return { ...next, position: nearest(lanes[next.lane].rows[next.row], spans, time) };
}
