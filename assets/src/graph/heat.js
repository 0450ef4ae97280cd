// The heat map: a value for every node, a colour and a text for it.
import { HEAT } from "../draw/colors.js";
import { inkOn, mixed, rgb } from "../draw/contrast.js";
import { bytes, seconds } from "../draw/numbers.js";
import { nodeTimes } from "./times.js";

const LEVELS = 16;

export const MODES = { none: "none", time: "time", bytes: "bytes written" };

// {values, low, high, text} or null where there is nothing to show.
export function heatOf(mode, model, sample) {
  if (mode === "time") return scaled(nodeTimes(model, sample), (value) => seconds(value / 1e6));
  if (mode === "bytes") return scaled(model.message.node.bytes, bytes);
  return null;
}

function scaled(values, text) {
  if (!values) return null;
  let [low, high] = [Infinity, 0];
  for (const value of values) {
    if (value > 0) low = Math.min(low, value);
    if (value > high) high = value;
  }
  return high > 0 ? { values, low, high, text } : null;
}

// What all ops in a box have together. NaN where none is known.
export function summed({ values }, nodes) {
  let sum = NaN;
  for (const n of nodes) if (!Number.isNaN(values[n])) sum = (Number.isNaN(sum) ? 0 : sum) + values[n];
  return sum;
}

// The same heat with a scale for these items, which may stand for many nodes each.
export function scaledFor(heat, items) {
  const sums = items.map(({ nodes }) => summed(heat, nodes)).filter((sum) => sum > 0);
  return sums.length ? { ...heat, low: Math.min(...sums), high: Math.max(...sums) } : heat;
}

// 0 … 1 on a logarithmic scale.
export function part({ low, high }, value) {
  if (!(value > 0)) return 0;
  return high > low ? Math.min(Math.max(Math.log(value / low) / Math.log(high / low), 0), 1) : 1;
}

// One of LEVELS colours between that of the page and the hottest.
export const color = (share, back) => `color-mix(in srgb, ${HEAT} ${percent(share)}%, ${back})`;

const percent = (share) => Math.round(6 + (94 * Math.round(share * (LEVELS - 1))) / (LEVELS - 1));

const inks = new Map();

// Letters for a box of that colour; without a share, for one that has none.
export function ink(share, back) {
  const hot = share === null ? 0 : percent(share);
  const key = `${hot} ${back}`;
  if (!inks.has(key)) inks.set(key, inkOn(hot ? mixed(HEAT, back, hot / 100) : rgb(back)));
  return inks.get(key);
}
