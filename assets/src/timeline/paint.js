// One picture of the timeline on a canvas; what lies outside, or under a pixel that is covered already, is left out.
import { deviceColor } from "../draw/colors.js";
import { block } from "./ink.js";
import { busyWords, firstEnding, rowTop, spanOf } from "./lanes.js";
import { scale } from "./view.js";
import { axis } from "./words.js";

export const AXIS_PX = 22;
const GAP_PX = 2;
const LABEL_PX = 26; // narrower spans have no room for a word
const LETTERS = 5; // of a word that is cut short, at least
const DIAMOND_PX = 5;
const TICK_PX = 90;
const GUTTER_SHARE = 0.36;

// scene: {spans, lanes, view, ink, width, height, scroll, chosen: [place …], cursor, hover, longest: place or null};
// lengths in px.
export function paint(context, scene) {
  const { ink, width, height } = scene;
  const left = gutterOf(context, scene);
  const area = { ...scene, left, ...scale(scene.view, left, width - left) };
  context.clearRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.save();
  clip(context, 0, AXIS_PX, width, height - AXIS_PX);
  context.translate(0, AXIS_PX - scene.scroll);
  const visible = scene.lanes.filter(
    ({ top, height: size }) => top + size > scene.scroll && top < scene.scroll + height,
  );
  for (const lane of visible) paintLabels(context, lane, area);
  clip(context, left, scene.scroll, width - left, height);
  for (const lane of visible) paintIdle(context, lane, area);
  paintBands(context, area);
  for (const lane of visible) paintLane(context, lane, area);
  if (scene.hover) outline(context, scene.hover, area, ink.text, 1);
  for (const place of scene.chosen) outline(context, place, area, ink.text, 2.5);
  if (scene.cursor) outline(context, scene.cursor, area, ink.brand, 2, [4, 2]);
  if (scene.longest) pointer(context, scene.longest, area);
  context.restore();
  paintAxis(context, area);
}

// As wide as the labels need, at most about a third.
export function gutterOf(context, { lanes, ink, width }) {
  const widest = (font, texts) => {
    context.font = font;
    return Math.max(...texts.map((text) => context.measureText(text).width));
  };
  const labels = widest(
    ink.bold,
    lanes.map(({ label }) => label),
  );
  const wanted = Math.max(labels, widest(ink.font, lanes.map(busyWords)), 116) + 22;
  return Math.round(Math.min(wanted, width * GUTTER_SHARE));
}

function clip(context, x, y, width, height) {
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
}

function paintLabels(context, lane, { ink, left, width }) {
  const middle = lane.top + lane.height / 2;
  context.fillStyle = lane.device < 0 ? ink.fill.collective : deviceColor(lane.device);
  context.fillRect(0, lane.top + 3, 4, lane.height - 6);
  context.font = ink.bold;
  context.fillStyle = ink.text;
  context.fillText(fitted(context, lane.label, left - 18), 10, middle - 7);
  context.font = ink.font;
  context.fillStyle = ink.faint;
  context.fillText(fitted(context, busyWords(lane), left - 18), 10, middle + 7);
  context.fillStyle = ink.line;
  context.fillRect(0, lane.top + lane.height - 0.5, width, 1);
}

function paintIdle(context, lane, { ink, view, left, width, x }) {
  const from = Math.max(left, x(0));
  context.fillStyle = ink.idle;
  context.fillRect(from, lane.top + 4, Math.min(width, x(view.duration)) - from, lane.height - 8);
}

// Collectives reach over all devices: a light band behind the lanes below theirs.
function paintBands(context, { spans, lanes, view, ink, x, scroll, height }) {
  const own = lanes[0]?.device < 0 ? lanes[0] : null;
  if (!own) return;
  const top = own.top + own.height;
  context.fillStyle = ink.fill.collective;
  context.globalAlpha = 0.22;
  for (const row of own.rows) {
    for (let at = firstEnding(row, spans, view.from); at < row.length && spans.start[row[at]] < view.to; at++) {
      const from = x(spans.start[row[at]]);
      context.fillRect(from, top, Math.max(1.5, x(spans.end[row[at]]) - from), scroll + height - top);
    }
  }
  context.globalAlpha = 1;
}

function paintLane(context, lane, area) {
  lane.rows.forEach((row, k) => paintRow(context, row, rowTop(lane, k), lane, area));
}

function paintRow(context, row, y, { device, rowHeight }, area) {
  const height = rowHeight - GAP_PX;
  const { spans, view, x, left, width } = area;
  const marked = device < 0 && row.length < (width - left) / (3 * DIAMOND_PX);
  let covered = -Infinity;
  for (let at = firstEnding(row, spans, view.from); at < row.length; at++) {
    const i = row[at];
    if (spans.start[i] > view.to) break;
    const from = Math.max(x(spans.start[i]), left - 1);
    const to = Math.min(Math.max(x(spans.end[i]), from + 1), width + 1);
    if (device < 0) paintWaits(context, i, y, height, area);
    if (marked && to - from < DIAMOND_PX) diamond(context, (from + to) / 2, y + height / 2, area.ink);
    if (to <= covered + 0.5) continue;
    covered = to;
    const gap = to - from > 4 ? 0.75 : 0; // neighbours stay apart
    block(context, area.ink, spans.kinds[i], from, y, to - from - gap, height);
    if (to - from > LABEL_PX)
      label(context, spans.name(i, device), spans.kinds[i], { from, to: to - gap, y, height }, area.ink);
  }
}

// From when each device had made its part of a collective to when that began, in the colour of the device.
function paintWaits(context, i, y, height, { spans, x }) {
  const waits = spans.waits(i);
  waits.forEach(({ device, at, waited }, k) => {
    if (waited <= 0) return;
    const middle = y + (height * (k + 0.5)) / waits.length;
    context.fillStyle = deviceColor(device);
    context.fillRect(x(at), middle - 0.75, x(spans.start[i]) - x(at), 1.5);
    context.fillRect(x(at), middle - 3, 1.5, 6);
  });
}

// Collectives that are over in no time are still seen.
function diamond(context, x, y, ink) {
  context.fillStyle = ink.fill.collective;
  context.beginPath();
  for (const [right, down] of [
    [0, -8],
    [DIAMOND_PX, 0],
    [0, 8],
    [-DIAMOND_PX, 0],
  ])
    context.lineTo(x + right, y + down);
  context.fill();
}

function label(context, name, kind, { from, to, y, height }, ink) {
  context.font = ink.font;
  const text = fitted(context, name, to - from - 6);
  if (text.length < LETTERS && text !== name) return;
  const middle = y + height / 2 + (kind === "optimize" ? 2 : kind === "backward" ? -1 : 0);
  if (kind === "collective") {
    context.fillStyle = ink.fill.collective; // stripes make words hard to read
    context.fillRect(from + 2, y + 3, Math.min(context.measureText(text).width + 3, to - from - 4), height - 6);
  }
  context.fillStyle = ink.on[kind];
  context.fillText(text, from + 3, middle);
}

// Where the span of a place is drawn.
function boxOf(place, { spans, lanes, x }) {
  const span = spanOf(lanes, place);
  const lane = lanes[place.lane];
  const [from, to] = [x(spans.start[span]), x(spans.end[span])];
  return { from, y: rowTop(lane, place.row), size: Math.max(to - from, 3), height: lane.rowHeight - GAP_PX };
}

function outline(context, place, area, color, width, dashes = []) {
  const { from, y, size, height } = boxOf(place, area);
  const { ink } = area;
  context.strokeStyle = ink.back;
  context.lineWidth = width + 2;
  context.strokeRect(from - 1, y - 1, size + 2, height + 2);
  context.strokeStyle = color;
  context.lineWidth = width;
  context.setLineDash(dashes);
  context.strokeRect(from - 1, y - 1, size + 2, height + 2);
  context.setLineDash([]);
}

// A triangle that points at a span from above.
function pointer(context, place, area) {
  const { from, y, size } = boxOf(place, area);
  const middle = from + size / 2;
  context.beginPath();
  context.moveTo(middle - 6, y - 4);
  context.lineTo(middle + 6, y - 4);
  context.lineTo(middle, y + 5);
  context.closePath();
  context.fillStyle = area.ink.text;
  context.strokeStyle = area.ink.back;
  context.lineWidth = 1.5;
  context.stroke();
  context.fill();
}

function paintAxis(context, { view, ink, left, width, height, x }) {
  context.font = ink.font;
  context.fillStyle = ink.faint;
  for (const { at, text } of axis(view, Math.max(2, Math.floor((width - left) / TICK_PX)))) {
    const place = x(at);
    const half = context.measureText(text).width / 2;
    if (place < left - 0.5 || place > width) continue;
    context.fillRect(place, AXIS_PX - 5, 1, 5);
    context.fillText(text, Math.min(Math.max(place - half, left), width - 2 * half), 8);
    context.globalAlpha = 0.25;
    context.fillRect(place, AXIS_PX, 1, height);
    context.globalAlpha = 1;
  }
  context.fillRect(0, AXIS_PX - 0.5, width, 1);
}

const widths = new Map(); // of whole texts, by font and text

// As much of a text as fits into so many px, with … where something is missing.
export function fitted(context, text, room) {
  const key = `${context.font} ${text}`;
  if (!widths.has(key)) {
    if (widths.size > 5000) widths.clear();
    widths.set(key, context.measureText(text).width);
  }
  const whole = widths.get(key);
  if (whole <= room) return text;
  const kept = Math.floor((room / whole) * text.length) - 1;
  return kept > 0 ? `${text.slice(0, kept)}…` : "";
}
