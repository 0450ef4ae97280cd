// The words of the header.
import { count, number, seconds } from "../draw/numbers.js";

// "2 devices: CPUPlace(0), CPUPlace(1)", "8 devices: CPUPlace(0) to CPUPlace(7)", "1 device: CPUPlace(0)".
export function deviceList(devices) {
  if (!devices.length) return "no device yet";
  const many = `${devices.length} device${devices.length > 1 ? "s" : ""}`;
  const names = devices.length > 4 ? `${devices[0]} to ${devices[devices.length - 1]}` : devices.join(", ");
  return `${many}: ${names}`;
}

// "done, NaN from step 27": a run in which there was a NaN is not simply done.
export function stateWords(run) {
  return [run?.state, run?.nan?.title].filter(Boolean).join(", ");
}

// What the header counts, as [text, explanation].
export function counter({ state, step, steps, seconds: spent, rate, eta }) {
  const parts = [[steps ? `step ${count(step)} of ${count(steps)}` : `step ${count(step)}`, "steps that are done"]];
  if (state === "running") parts.push([`${rateText(rate)} steps/s`, "over the last second or so"]);
  if (spent != null) parts.push([`${spentText(spent)} in all`, "time spent running, pauses left out"]);
  if (state === "running" && eta != null) parts.push([`about ${seconds(eta)} left`, "at this rate"]);
  return parts;
}

// The kernel tells hundredths of a second.
const spentText = (spent) => (spent < 1 ? `${Math.round(1000 * spent)} ms` : seconds(spent));

// With few enough digits that it does not jitter.
export function rateText(rate) {
  if (rate == null || !Number.isFinite(rate)) return "–";
  return rate >= 100 ? count(rate) : rate.toPrecision(2);
}

// JSON has no NaN: it may come as null or as text.
export function named(value) {
  if (value == null) return "NaN";
  return typeof value === "number" ? number(value) : String(value);
}
