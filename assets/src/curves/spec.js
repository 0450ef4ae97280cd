// What a chart is given to draw: the same series of all shown runs.
import { count, number } from "../draw/numbers.js";
import { padded } from "../draw/scale.js";
import { typicalRange } from "./range.js";
import { broken, smoothed } from "./smooth.js";

const EMPTY = new Float64Array();

// `whole` shows all values, however far out; else those that are have left the frame, and `away` says so.
export function seriesSpec(name, runs, { smoothing, log, whole = false }) {
  const drawn = runs.filter(({ shown, curves }) => shown && curves.series?.[name]);
  const marks = drawn.map((run) => nanMark(name, run)).filter(Boolean);
  const series = drawn.map((run) => line(run, run.curves.series[name], smoothing));
  const ranges = typicalRange(
    drawn.map(({ curves }) => columnsOf(curves, name)),
    log,
  );
  const yRange = ranges ? padded(whole ? ranges.whole : ranges.range, log) : undefined;
  return {
    label: `${name} over the steps`,
    series,
    marks: onlyOneLabel(marks),
    log,
    yRange,
    reads: smoothing > 0 ? "value (smoothed)" : "",
    away: ranges && !whole ? drawn.map((run) => awayWords(run, run.curves.series[name], yRange)).filter(Boolean) : [],
  };
}

// Bands are drawn where a point stands for several steps.
function columnsOf({ series, width }, name) {
  const { mean, low, high } = series[name];
  return width > 1 ? { mean, low, high } : { mean };
}

// "lr 0.1 from step 120, up to 3.2e+8": where a run leaves the frame, and how far; empty where it does not.
function awayWords({ label, curves }, { step, mean }, [least, most]) {
  const isAway = (value) => Number.isFinite(value) && (value < least || value > most);
  const first = mean.findIndex(isAway);
  if (first < 0) return "";
  const farthest = mean.reduce(
    (far, value) => (isAway(value) && !(Math.abs(value) <= Math.abs(far)) ? value : far),
    NaN,
  );
  const about = curves.width > 1 ? "about " : "";
  return `${label} from ${about}step ${count(step[first])}, ${farthest > most ? "up" : "down"} to ${number(farthest)}`;
}

function line({ label, color, dash, curves }, { step, mean, low, high }, smoothing) {
  const y = smoothed(mean, smoothing);
  const one = { name: label, color, dash, x: step, y, values: mean };
  if (smoothing > 0) Object.assign(one, { raw: mean, value: (i) => `${number(mean[i])} (${number(y[i])})` });
  if (curves.width > 1) Object.assign(one, { low, high, fill: 0.15 });
  return one;
}

function nanMark(name, { label, color, curves }) {
  const { step, mean, broken: first } = curves.series[name];
  const breakdown = broken(step, mean, curves.width, first);
  if (!breakdown) return null;
  const text = `${label}: ${breakdown.text}`;
  return { name: "NaN", x: [breakdown.step], color, shape: "cross", label: breakdown.text, text: () => text };
}

// Several would lie on each other; the others are said by the crosshair and beside the run's name.
function onlyOneLabel(marks) {
  return marks.map((mark, i) => (i ? { ...mark, label: null } : mark));
}

export function rateSpec(runs) {
  const series = runs
    .filter(({ shown, curves }) => shown && curves.rate?.step?.length)
    .map(({ label, color, dash, curves }) => ({ name: label, color, dash, x: curves.rate.step, y: curves.rate.value }));
  return {
    label: "steps per second",
    series,
    zero: true,
    yFormat: (value) => (value >= 10 ? count(value) : String(Number(value.toPrecision(3)))),
  };
}

// What is said beside a run's name when one of its series is no number any more.
export function trouble({ curves }) {
  for (const [name, { step, mean, broken: first }] of Object.entries(curves.series ?? {})) {
    const breakdown = broken(step ?? EMPTY, mean ?? EMPTY, curves.width, first);
    if (breakdown) return `${name} ${breakdown.text}`;
  }
  return "";
}
