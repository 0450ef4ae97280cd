// What the timeline says in words.
import { bytes, count, seconds, ticks } from "../draw/numbers.js";
import { slowestWords } from "../draw/slowest.js";
import { busyWords, spanOf } from "./lanes.js";

export const time = (us) => seconds(us / 1e6);

export function percent(share) {
  const value = share * 100;
  return `${value > 0 && value < 0.95 ? Math.max(value, 0.1).toFixed(1) : Math.round(value)} %`;
}

function longestWords(spans) {
  const i = spans.longest();
  if (i < 0) return "";
  const long = `${time(spans.own(i))}, ${percent(spans.share(i))} of it`;
  return `longest op of this step: ${spans.name(i)} on ${spans.where(i)}, ${long}`;
}

// "step 1,200 took 7.3 ms; slowest: …; 4 collectives took 1.1 ms, 15 % of the step". The slowest is that of the newest
// sample, whichever step is shown: it was found over all of them.
export function noteWords(spans, newest = spans.sample) {
  const lasted = spans.sample.seconds || spans.count ? ` took ${time(spans.duration)}` : ""; // nobody measured it
  const step = `step ${count(spans.sample.step)}${lasted}`;
  if (!spans.count) return `${step}; its ops were not timed`;
  const parts = [step, slowestWords(newest, spans.devices), collectiveWords(spans), clockWords(spans.sample.clocks)];
  return parts.filter(Boolean).join("; ");
}

// "clocks of 2 ranks aligned to ± 2.1 µs": of the rank about which least is known.
export function clockWords(clocks) {
  if (!clocks || clocks.within.length < 2) return "";
  return `clocks of ${clocks.within.length} ranks aligned to ± ${time(Math.max(...clocks.within))}`;
}

function collectiveWords(spans) {
  const { number, time: took } = spans.collectives();
  if (!number) return "no collectives";
  const named = number === 1 ? "1 collective" : `${count(number)} collectives`;
  return took
    ? `${named} took ${time(took)}, ${percent(took / spans.duration)} of the step`
    : `${named} took no time of their own`;
}

const ROLE_WORDS = {
  forward: "forward",
  backward: "backward",
  optimize: "optimize",
  server: "exchange with servers",
  collective: "collective",
  other: "",
  wait: "",
};

// [[label, text] …] of a tooltip in the lane of a device, its title aside.
export function details(spans, i, device) {
  const size = spans.bytes(i, device);
  const together = spans.name(i) === spans.name(i, device) ? "" : `${spans.name(i)} on ${spans.where(i)}`;
  const place = device < 0 ? spans.where(i) : spans.deviceLabel(device);
  return [
    ["layer", spans.layers(i, device).join(", ")],
    ["role", ROLE_WORDS[spans.kinds[i]]],
    ["where", `${place}, thread ${spans.thread(i)}`],
    ["start", time(spans.start[i])],
    [spans.kinds[i] === "collective" ? "its own time" : "duration", lastsWords(spans, i)],
    ["waited", waitWords(spans, i)],
    ["writes", size === null ? "" : bytes(size)],
    ["run as one", together],
  ].filter(([, text]) => text);
}

function lastsWords(spans, i) {
  const words = `${time(spans.own(i))}, ${percent(spans.share(i))} of the step`;
  if (spans.inner.has(i)) return `${words}; ${time(spans.lasts(i))} with the collectives within it`;
  return spans.within(i) ? `${words}; a share of the time of the ops that do it` : words;
}

// "CPUPlace(0) 12.0 µs, CPUPlace(1) 0 s": what each device's part of a collective waited for the last one.
export function waitWords(spans, i) {
  return spans
    .waits(i)
    .map(({ device, waited }) => `${spans.deviceLabel(device)} ${time(Math.max(waited, 0))}`)
    .join(", ");
}

// One line for those who cannot see the span at a place.
export function spoken(spans, lanes, place) {
  const { device, rows } = lanes[place.lane];
  const i = spanOf(lanes, place);
  const layer = spans.layers(i, device).map((name) => ` of ${name}`)[0] ?? "";
  const where = device < 0 ? spans.where(i) : spans.deviceLabel(device);
  const what = `${spans.name(i, device)}${layer} on ${where}, thread ${spans.thread(i)}`;
  const lasts = `lasts ${time(spans.own(i))}, ${percent(spans.share(i))} of the step`;
  return `${what}: starts at ${time(spans.start[i])}, ${lasts}; ${place.position + 1} of ${rows[place.row].length} in this lane`;
}

export function gist(spans, lanes) {
  const busy = lanes.filter((lane) => lane.device >= 0).map((lane) => `${lane.label} ${busyWords(lane)}`);
  const said = [noteWords(spans, null), longestWords(spans)].filter(Boolean).join("; ");
  const keys = "Arrow keys walk the spans, Enter selects the node, plus, minus and 0 zoom";
  return `timeline, ${said}. ${busy.slice(0, 16).join("; ")}. ${keys}`;
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
