// What a chart is given to draw: the same series of all shown runs.
import { count, number } from "../draw/numbers.js";
import { broken, smoothed } from "./smooth.js";

const EMPTY = new Float64Array();

export function seriesSpec(name, runs, { smoothing, log }) {
  const drawn = runs.filter(({ shown, curves }) => shown && curves.series?.[name]);
  const marks = drawn.map((run) => nanMark(name, run)).filter(Boolean);
  const series = drawn.map((run) => line(run, run.curves.series[name], smoothing));
  return { label: `${name} over the steps`, series, marks: onlyOneLabel(marks), log, reads: smoothing > 0 ? "value (smoothed)" : "" };
}

function line({ label, color, dash, curves }, { step, mean, low, high }, smoothing) {
  const y = smoothed(mean, smoothing);
  const one = { name: label, color, dash, x: step, y, values: mean };
  if (smoothing > 0) Object.assign(one, { raw: mean, value: (i) => `${number(mean[i])} (${number(y[i])})` });
  if (curves.width > 1) Object.assign(one, { low, high, fill: 0.15 });
  return one;
}

function nanMark(name, { label, color, curves }) {
  const { step, mean } = curves.series[name];
  const found = broken(step, mean, curves.width);
  if (!found) return null;
  const text = `${label}: ${found.text}`;
  return { name: "NaN", x: [found.step], color, shape: "cross", label: found.text, text: () => text };
}

// Several would lie on each other; the others are said by the crosshair and beside the run's name.
function onlyOneLabel(marks) {
  return marks.map((mark, i) => (i ? { ...mark, label: null } : mark));
}

export function rateSpec(runs) {
  const series = runs
    .filter(({ shown, curves }) => shown && curves.rate?.step?.length)
    .map(({ label, color, dash, curves }) => ({ name: label, color, dash, x: curves.rate.step, y: curves.rate.value }));
  return { label: "steps per second", series, zero: true, yFormat: (value) => (value >= 10 ? count(value) : String(Number(value.toPrecision(3)))) };
}

// What is said beside a run's name when one of its series is no number any more.
export function trouble({ curves }) {
  for (const [name, { step, mean }] of Object.entries(curves.series ?? {})) {
    const found = broken(step ?? EMPTY, mean ?? EMPTY, curves.width);
    if (found) return `${name} ${found.text}`;
  }
  return "";
}
