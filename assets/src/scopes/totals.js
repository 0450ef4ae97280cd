// Parameters and optimizer state that a device updates under this strategy, and what it would under the other one; and
// how much of both there is, since devices may hold them in common.
import { SERIES } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { bytes } from "../draw/numbers.js";

export const PARTS = [
  { key: "parameters", label: "parameters", color: SERIES[0] },
  { key: "state", label: "optimizer state", color: SERIES[1] },
  { key: "gradients", label: "summed gradients", color: SERIES[4] },
];

const sumOf = (device) => PARTS.reduce((sum, { key }) => sum + (device[key] ?? 0), 0);
const mostOf = ({ devices }, key) => Math.max(0, ...devices.map((device) => device[key] ?? 0));

// Devices that hold the same amounts share a bar: [{label, amounts}].
export function rowsOf({ devices: amounts }, devices) {
  const same = (one) => PARTS.every(({ key }) => (one[key] ?? 0) === (amounts[0][key] ?? 0));
  const label = (i) => devices[i] ?? `device ${i}`;
  if (amounts.length > 1 && amounts.every(same))
    return [{ label: `each of ${amounts.length} devices`, amounts: amounts[0] }];
  return amounts.map((one, i) => ({ label: label(i), amounts: one }));
}

// "Reduce would update 50 % of the optimizer state per device."
export function words([own, other] = []) {
  if (!own) return "";
  if (!other) return own.devices.length > 1 ? "" : "With one device both strategies are the same.";
  const kept = PARTS[1];
  if (!mostOf(own, kept.key) && !mostOf(other, kept.key)) return "The optimizer keeps no state per parameter.";
  const [mine, theirs] = [mostOf(own, kept.key), mostOf(other, kept.key)];
  if (mine === theirs) return `${other.strategy} would update just as much ${kept.label} per device.`;
  return `${other.strategy} would update ${compared(other, own, kept.key)} the ${kept.label} per device.`;
}

// "Held: 118.3 KiB of parameters and optimizer state, all of it shared by devices."
export function heldWords({ kept = 0, shared = 0 } = {}, devices = []) {
  if (!kept) return "";
  const held = `Held: ${bytes(kept)} of parameters and optimizer state`;
  if (devices.length < 2) return `${held}.`;
  const part = shared === kept ? "all" : shared ? bytes(shared) : "none";
  return `${held}, ${part} of it shared by devices.`;
}

function compared(other, own, key) {
  const uneven = [own, other].some(({ devices }) => devices.some((device) => device[key] !== devices[0][key]));
  const most = uneven ? "at most " : "";
  const ratio = mostOf(other, key) / mostOf(own, key);
  return ratio < 1 ? `${most}${Math.round(ratio * 100)} % of` : `${most}${Number(ratio.toPrecision(2))} times`;
}

export function totalsView() {
  const said = h("p", { class: "wb-totals-words" });
  const bars = h("div", { class: "wb-totals-bars" });
  const keys = PARTS.map(({ key, label }) => h("span", {}, h("i", { class: `wb-totals-key wb-part-${key}` }), label));
  const element = h(
    "div",
    { class: "wb-totals" },
    h("div", { class: "wb-live-bar" }, h("h4", {}, "Updated per device, by strategy"), ...keys),
    bars,
    said,
  );

  function show({ totals = [], devices = [], live_total: total }) {
    element.hidden = !totals.length;
    if (!totals.length) return;
    const most = Math.max(1, ...totals.flatMap((one) => one.devices.map(sumOf)));
    bars.replaceChildren(...totals.flatMap((one, i) => group(one, i, devices, most)));
    said.textContent = [words(totals), heldWords(total, devices)].filter(Boolean).join(" ");
  }
  return { element, show };
}

function group(one, i, devices, most) {
  const title = h(
    "div",
    { class: "wb-totals-strategy" },
    one.strategy,
    h("span", {}, i ? "the other strategy" : "in use"),
  );
  return [title, ...rowsOf(one, devices).map((row) => bar(row, most))];
}

function bar({ label, amounts }, most) {
  const parts = PARTS.filter(({ key }) => amounts[key] > 0);
  const said = PARTS.map(({ key, label: name }) => `${name} ${bytes(amounts[key] ?? 0)}`).join(", ");
  const pieces = parts.map(({ key, label: name }) =>
    h(
      "span",
      {
        class: `wb-totals-part wb-part-${key}`,
        style: `width: ${(amounts[key] / most) * 100}%`,
        title: `${name} ${bytes(amounts[key])}`,
      },
      h("b", {}, bytes(amounts[key])),
    ),
  );
  const line = h("span", { class: "wb-totals-line", role: "img", "aria-label": `${label}: ${said}` }, ...pieces);
  return h(
    "div",
    { class: "wb-totals-row" },
    h("span", { class: "wb-totals-label" }, label),
    line,
    h("span", {}, bytes(sumOf(amounts))),
  );
}
