// Lanes: one for the collectives, then one per device and thread. Spans of a lane that overlap get rows of their own.
import { covered } from "./spans.js";

const PADDING = 4;
const ROW = 18; // where there are several in a lane
const SINGLE = 26; // two lines of text fit beside it

// [{label, device (-1: collectives), thread, rows: [[span …] …], busy: share of the step}]
export function lanesOf(spans) {
  const found = new Map();
  for (let i = 0; i < spans.count; i++) {
    const together = spans.kinds[i] === "collective";
    const [device, thread] = together ? [-1, 0] : [spans.device(i), spans.thread(i)];
    const key = `${device} ${thread}`;
    if (!found.has(key)) found.set(key, { device, thread, label: labelOf(spans, device, thread), spans: [] });
    found.get(key).spans.push(i);
  }
  const lanes = [...found.values()].sort((a, b) => a.device - b.device || a.thread - b.thread);
  return placed(lanes.map((lane) => filled(lane, spans)));
}

function labelOf(spans, device, thread) {
  return device < 0 ? "collectives" : `${spans.deviceLabel(device)}, thread ${thread}`;
}

function filled({ spans: positions, ...lane }, spans) {
  const busy = Math.min(1, covered(spans, positions) / spans.duration);
  return { ...lane, busy, rows: rowsOf(positions, spans) };
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

export const busyWords = ({ busy }) => {
  const percent = Math.round(busy * 100);
  return `busy ${percent} %, idle ${100 - percent} %`;
};

// Where a span is: {lane, row, position}, positions in `lanes`, its rows and the row.
export function locate(lanes, span) {
  for (const [lane, { rows }] of lanes.entries()) {
    for (const [row, positions] of rows.entries()) {
      const position = positions.indexOf(span);
      if (position >= 0) return { lane, row, position };
    }
  }
  return null;
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

// The span of a row nearest to a time; -1 of an empty row, or if it is more than `within` µs away.
export function nearest(row, spans, time, within = Infinity) {
  const at = firstEnding(row, spans, time);
  const away = (i) => Math.max(spans.start[i] - time, time - spans.end[i], 0);
  const found = [row[at - 1], row[at]].filter((i) => i !== undefined).sort((a, b) => away(a) - away(b))[0];
  return found !== undefined && away(found) <= within ? found : -1;
}

// The span at a height (px from the first lane) and time, at most `within` µs beside it; -1 if none is there.
export function spanAt(lanes, spans, y, time, within) {
  const lane = lanes.find(({ top, height }) => y >= top && y < top + height);
  if (!lane) return -1;
  const row = Math.floor((y - lane.top - PADDING) / lane.rowHeight);
  return nearest(lane.rows[Math.min(Math.max(row, 0), lane.rows.length - 1)], spans, time, within);
}

// The span an arrow key leads to from another; the same one at the end of the way.
export function neighbour(lanes, spans, from, key) {
  const here = locate(lanes, from);
  if (!here) return lanes[0]?.rows[0]?.[0] ?? -1;
  const row = lanes[here.lane].rows[here.row];
  if (key === "Home") return row[0];
  if (key === "End") return row.at(-1);
  if (key === "ArrowLeft") return row[Math.max(here.position - 1, 0)];
  if (key === "ArrowRight") return row[Math.min(here.position + 1, row.length - 1)];
  const rows = lanes.flatMap((lane) => lane.rows);
  const next = rows[rows.indexOf(row) + (key === "ArrowDown" ? 1 : -1)];
  return next ? nearest(next, spans, (spans.start[from] + spans.end[from]) / 2) : from;
}
