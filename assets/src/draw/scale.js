// From values to pixels: linear and logarithmic scales, their ticks, and the range that a chart has to show.
import { count, number, ticks } from "./numbers.js";

// A function value -> pixel, NaN for what has no place (nothing, or not above zero on a logarithmic scale).
export function scale([low, high], [from, to], log = false) {
  if (log) {
    const start = Math.log(low);
    const factor = (to - from) / (Math.log(high) - start || 1);
    return (value) => (value > 0 ? from + (Math.log(value) - start) * factor : NaN);
  }
  const factor = (to - from) / (high - low || 1);
  return (value) => from + (value - low) * factor;
}

// A scale that ends at two pixels: what lies farther out is drawn there.
export const held = (place, least, most) => (value) => {
  const at = place(value);
  return at < least ? least : at > most ? most : at;
};

// [low, high] of all finite numbers in the columns, null when there is none; `positive` leaves out zero and below.
export function extent(columns, positive = false) {
  let low = Infinity;
  let high = -Infinity;
  for (const column of columns) {
    for (let i = 0; i < column.length; i++) {
      const value = column[i];
      if (!Number.isFinite(value) || (positive && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : null;
}

// A little air around the range, so that no line runs along the frame; a flat line gets a range too.
export function padded([low, high], log = false) {
  if (log) {
    const factor = low === high ? 2 : (high / low) ** 0.05;
    return [low / factor, high * factor];
  }
  const air = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.05;
  return [low >= 0 && low - air < 0 ? 0 : low - air, high + air];
}

// Powers of ten; their doubles and halves as well when there are few.
export function logTicks(low, high) {
  const factors = high / low > 1e3 ? [1] : [1, 2, 5];
  const candidates = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of factors) candidates.push(factor * 10 ** power);
  }
  const inside = candidates.filter((value) => value >= low && value <= high);
  const every = Math.ceil(inside.length / 7);
  return inside.length > 1 ? inside.filter((_, i) => i % every === 0) : ticks(low, high, 4);
}

// Position of the value nearest to `wanted` in an ascending column, -1 in an empty one.
export function nearest(column, wanted) {
  let low = 0;
  let high = column.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - column[low - 1] <= column[low] - wanted ? low - 1 : low;
}

// "loss: first 2.3, last 0.1, lowest 0.08, highest 2.4 over 2,000 points": a curve for those who cannot see it.
export function gist(name, column, format = number) {
  const range = extent([column]);
  if (!range) return `${name}: no finite values`;
  const at = (i) => format(column[i]);
  const points = `${count(column.length)} point${column.length === 1 ? "" : "s"}`;
  const [lowest, highest] = range.map((value) => format(value));
  return `${name}: first ${at(0)}, last ${at(column.length - 1)}, lowest ${lowest}, highest ${highest} over ${points}`;
}
