// What the timeline says in words.
import { bytes, count, seconds, ticks } from "../draw/numbers.js";
import { busyWords, locate } from "./lanes.js";

export const time = (us) => seconds(us / 1e6);

export function percent(share) {
  const value = share * 100;
  return `${value > 0 && value < 0.95 ? Math.max(value, 0.1).toFixed(1) : Math.round(value)} %`;
}

export function slowestWords(spans) {
  const i = spans.slowest();
  if (i < 0) return "";
  const long = `${time(spans.lasts(i))}, ${percent(spans.share(i))} of the step`;
  return `slowest: ${spans.name(i)} on ${spans.where(i)}, ${long}`;
}

// "step 1,200, 7.3 ms; slowest: …; 1.1 ms in collectives, 15 % of the step".
export function noteWords(spans) {
  const collectives = spans.collectiveTime();
  const together = collectives
    ? `${time(collectives)} in collectives, ${percent(collectives / spans.duration)} of the step`
    : "no collectives";
  return [`step ${count(spans.sample.step)}, ${time(spans.duration)}`, slowestWords(spans), together]
    .filter(Boolean)
    .join("; ");
}

const ROLE_WORDS = {
  forward: "forward",
  backward: "backward",
  optimize: "optimize",
  collective: "collective",
  other: "",
};

// [[label, text] …] of a tooltip, its title aside.
export function details(spans, i) {
  const size = spans.bytes(i);
  return [
    ["layer", spans.layers(i).join(", ")],
    ["role", ROLE_WORDS[spans.kinds[i]]],
    ["where", `${spans.where(i)}, thread ${spans.thread(i)}`],
    ["start", time(spans.start[i])],
    ["duration", `${time(spans.lasts(i))}, ${percent(spans.share(i))} of the step`],
    ["writes", size === null ? "" : bytes(size)],
  ].filter(([, text]) => text);
}

// One line for those who cannot see the span.
export function spoken(spans, lanes, i) {
  const here = locate(lanes, i);
  const row = lanes[here.lane].rows[here.row];
  const layer = spans.layers(i).map((name) => ` of ${name}`)[0] ?? "";
  const place = `${spans.name(i)}${layer} on ${spans.where(i)}, thread ${spans.thread(i)}`;
  const lasts = `starts at ${time(spans.start[i])}, lasts ${time(spans.lasts(i))}, ${percent(spans.share(i))} of the step`;
  return `${place}: ${lasts}; ${here.position + 1} of ${row.length} in this lane`;
}

export function gist(spans, lanes) {
  const busy = lanes.filter((lane) => lane.device >= 0).map((lane) => `${lane.label} ${busyWords(lane)}`);
  const keys = "Arrow keys walk the spans, Enter selects the node, plus, minus and 0 zoom";
  return `timeline, ${noteWords(spans)}. ${busy.slice(0, 16).join("; ")}. ${keys}`;
}

// Marks of the axis, [{at, text}], in µs or ms as the shown part asks for.
export function axis(view, wanted) {
  const unit = view.to >= 1000 ? 1000 : 1;
  const places = ticks(view.from, view.to, wanted).filter((at) => at <= view.to);
  const step = places.length > 1 ? places[1] - places[0] : view.width;
  const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  const form = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const text = (at) => (at / unit).toLocaleString("en", form);
  return places.map((at) => ({ at, text: `${text(at)} ${unit === 1 ? "µs" : "ms"}` }));
}
