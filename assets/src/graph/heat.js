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

// The largest value in a box: the hottest op is seen through the fold. NaN where none is known.
export function hottest({ values }, nodes) {
  let most = NaN;
  for (const n of nodes) if (!(values[n] <= most)) most = Number.isNaN(values[n]) ? most : values[n];
  return most;
}

// 0 … 1 on a logarithmic scale.
export function part({ low, high }, value) {
  if (!(value > 0)) return 0;
  return high > low ? Math.log(value / low) / Math.log(high / low) : 1;
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
