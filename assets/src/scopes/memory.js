// Memory of temporaries over the steps: held between two points, given back at drops.
import { deviceColor } from "../draw/colors.js";
import { bytes, byteTicks, count } from "../draw/numbers.js";

const DASHES = [null, "7 3", "2 3", "9 3 2 3"];
export const PINS = 60; // more drops than that have no line each
const CAUSES = { interval: "interval", call: "asked for" };

export const deviceDash = (device) => DASHES[device % DASHES.length];

// What the chart draws; `from` is the first step that is shown.
export function memorySpec({ devices, memory, drops }, from = -Infinity) {
  const series = memory.bytes.map((column, device) => ({
    name: devices[device],
    color: deviceColor(device),
    dash: deviceDash(device),
    ...steps(memory.step, column, from),
  }));
  return {
    label: "memory of temporaries",
    series,
    marks: marksOf(drops, from),
    yFormat: bytes,
    yTicks: byteTicks,
    zero: true,
  };
}

// Corners of a line that stays where it is until the next point.
export function steps(xs, ys, from = -Infinity) {
  const [x, y] = [[], []];
  const add = (step, value) => {
    if (x.at(-1) === step && y.at(-1) === value) return;
    x.push(step);
    y.push(value);
  };
  for (let i = 0; i < xs.length; i++) {
    if (xs[i] < from) continue;
    if (i > 0) add(Math.max(xs[i - 1], from), ys[i - 1]);
    if (i > 0) add(xs[i], ys[i - 1]);
    add(xs[i], ys[i]);
  }
  return { x, y };
}

function marksOf(drops, from) {
  const all = [...(drops?.step ?? [])];
  const shown = all.map((_, i) => i).filter((i) => all[i] >= from);
  const shape = shown.length > PINS ? "triangle" : "pin";
  const text = (k) => dropWords(drops, shown[k]);
  return [{ name: "drops", x: shown.map((i) => all[i]), color: "var(--wb-text)", shape, text }];
}

// "dropped 1.2 MiB per device after step 100 (interval)".
export function dropWords({ step, bytes: freed, cause }, i) {
  const why = cause?.[i] ? ` (${CAUSES[cause[i]] ?? cause[i]})` : "";
  return `dropped ${perDevice(freed.map((column) => column[i]))} after step ${count(step[i])}${why}`;
}

// "1.2 MiB per device", or between which sizes: "248.0 to 256.0" after "dropped" would read as what became of it.
export function perDevice(sizes) {
  const [low, high] = [bytes(Math.min(...sizes)), bytes(Math.max(...sizes))];
  if (sizes.length === 1) return low;
  return `${low === high ? low : `between ${low} and ${high}`} per device`;
}

// "12 drops, the last dropped 1.2 MiB per device after step 1,200 (interval); 1.2 MiB per device held".
export function noteWords({ memory, drops }) {
  const number = drops?.total ?? drops?.step.length ?? 0;
  const last = drops?.step.length ? `, the last ${dropWords(drops, drops.step.length - 1)}` : "";
  const numberWords = number
    ? `${count(number)} drop${number === 1 ? "" : "s"}${last}`
    : drops?.since
      ? "no drops"
      : "no drops yet";
  const dropped = drops?.since ? `${numberWords}, not watched before step ${count(drops.since)}` : numberWords;
  const held = (memory?.bytes ?? []).map((column) => column.at(-1)).filter((size) => size !== undefined);
  return held.length ? `${dropped}; ${perDevice(held)} held` : dropped;
}

// The step from which on the last so many drops lie.
export function sinceDrop(drops, number) {
  const all = drops?.step ?? [];
  return all.length > number ? all.at(-number - 1) : -Infinity;
}
