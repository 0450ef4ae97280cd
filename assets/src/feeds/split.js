// Which rows of the batch each device got, in numbers and words.
import { bytes, count } from "../draw/numbers.js";

const SIZES = {
  bool: 1,
  int8: 1,
  uint8: 1,
  float16: 2,
  bfloat16: 2,
  int16: 2,
  float32: 4,
  int32: 4,
  float64: 8,
  int64: 8,
};

// Feeds that are split alike share a bar: [{names, total, parts: [{device, rows, first, last}], uneven}].
export function splits(feeds) {
  const bySplit = new Map();
  for (const name of feeds.names) {
    const rows = feeds.rows[name] ?? [];
    const first = feeds.first?.[name] ?? starts(rows);
    const key = JSON.stringify([rows, first]);
    if (!bySplit.has(key)) bySplit.set(key, { names: [], ...split(rows, first) });
    bySplit.get(key).names.push(name);
  }
  return [...bySplit.values()];
}

function split(rows, first) {
  const parts = rows.map((n, device) => ({ device, rows: n, first: first[device], last: first[device] + n - 1 }));
  return { total: rows.reduce((sum, n) => sum + n, 0), parts, uneven: new Set(rows).size > 1 };
}

function starts(rows) {
  let next = 0;
  return rows.map((n) => (next += n) - n);
}

// "uneven: 3, 4 rows", "" when all devices have as many.
export function unevenText({ parts, uneven }) {
  if (!uneven) return "";
  const sizes = parts.map(({ rows }) => rows);
  const words =
    sizes.length > 8 ? `${count(Math.min(...sizes))} to ${count(Math.max(...sizes))}` : sizes.map(count).join(", ");
  return `uneven: ${words} rows`;
}

export const rowsText = ({ rows, first, last }) => {
  if (!rows) return "no rows";
  return rows === 1 ? `row ${count(first)}` : `rows ${count(first)} to ${count(last)}`;
};

// "step 120: 64 rows over 2 devices, 200.7 KiB".
export function summary({ step, feeds, applied = true, about = "" }) {
  const total = splits(feeds)[0]?.total ?? 0;
  const size = (feeds.nbytes ?? []).reduce((sum, n) => sum + n, 0);
  const devices = feeds.devices.length;
  const failed = applied ? "" : ", which was not applied";
  const more = about && `; ${about}`;
  return `step ${count(step)}${failed}: ${count(total)} row${total === 1 ? "" : "s"} over ${devices} device${devices === 1 ? "" : "s"}, ${bytes(size)}${more}`;
}

// Bytes of one array, null for a dtype of unknown size.
export function arrayBytes(shape, dtype) {
  const size = SIZES[dtype];
  return size && shape ? shape.reduce((product, n) => product * n, size) : null;
}
