// The largest values that exist now, filtered by device and kind.
import { h } from "../draw/dom.js";
import { bytes, count, shape } from "../draw/numbers.js";
import { shortened } from "../graph/marks.js";

const KINDS = ["parameter", "state", "temporary", "feed"];
const ALL = "";
const NAME = { part: 0.4, least: 150, letter: 7.4 }; // the column of the names: of the width, px, px

// A value's device is a text, or its position in the list of devices.
export const deviceOf = ({ device }, devices) =>
  typeof device === "number" ? (devices[device] ?? `device ${device}`) : device;

export function filtered(live, devices, { device = ALL, kind = ALL }) {
  const fits = (value) => (!device || deviceOf(value, devices) === device) && (!kind || value.kind === kind);
  return live.filter(fits).sort((a, b) => b.bytes - a.bytes);
}

// Bytes that lie in a larger value, too, which was in that memory before or will be, are counted there.
const isShared = ({ own, bytes: size }) => own != null && own < size;

// "200 largest of 1,234 values, 9.1 MiB"; every byte counts once. `total` counts all there are, where that is more than came.
export function sumWords(matching, live, total) {
  const size = bytes(matching.reduce((sum, value) => sum + (value.own ?? value.bytes), 0));
  const some = total && total.count > live.length;
  const all = some ? `the ${count(live.length)} largest` : count(live.length);
  if (matching.length < live.length) return `${count(matching.length)} of ${all} values, ${size}`;
  if (some) return `${count(live.length)} largest of ${count(total.count)} values, ${bytes(total.bytes)}`;
  return `${count(matching.length)} values, ${size}`;
}

export class LiveTable {
  constructor() {
    Object.assign(this, { live: [], devices: [], key: "" });
    this.device = h("select", { "aria-label": "device of the live variables", onchange: () => this.draw() });
    this.kind = h("select", { "aria-label": "kind of the live variables", onchange: () => this.draw() });
    options(this.kind, "all kinds", KINDS);
    options(this.device, "all devices", []);
    this.sum = h("span", { class: "wb-faint" });
    this.rows = h("tbody");
    const head = ["name", "device", "kind", "shape", "dtype", "bytes"].map((text) => h("th", { scope: "col" }, text));
    const table = h("table", {}, h("thead", {}, h("tr", {}, ...head)), this.rows);
    const scroll = h(
      "div",
      { class: "wb-live-scroll", tabindex: 0, role: "group", "aria-label": "live variables" },
      table,
    );
    const bar = h("div", { class: "wb-live-bar" }, h("h4", {}, "Live variables"), this.device, this.kind, this.sum);
    this.element = h("div", { class: "wb-live" }, bar, scroll);
  }

  show({ live = [], devices = [], live_total: total = null }) {
    const key = JSON.stringify([live, devices, total]);
    if (key === this.key) return; // so that text can be marked while a run goes on
    if (devices.join() !== this.devices.join()) options(this.device, "all devices", devices);
    Object.assign(this, { live, devices, total, key });
    this.element.hidden = !live.length;
    this.draw();
  }

  draw() {
    const matching = filtered(this.live, this.devices, { device: this.device.value, kind: this.kind.value });
    this.sum.textContent = sumWords(matching, this.live, this.total);
    this.room = this.nameRoom();
    const most = Math.max(...this.live.map((value) => value.bytes), 1);
    this.rows.replaceChildren(...matching.map((value) => row(value, this.devices, most, this.room)));
  }

  nameRoom() {
    return Math.max(NAME.least, this.element.clientWidth * NAME.part) - 12;
  }

  // Names are cut in the middle, as their column has room.
  resized() {
    if (this.live.length && this.nameRoom() !== this.room) this.draw();
  }
}

function row(value, devices, most, room) {
  const size = h(
    "span",
    { class: "wb-live-bytes", style: `--part: ${(value.bytes / most) * 100}%` },
    bytes(value.bytes),
  );
  if (isShared(value)) size.title = `in memory that larger values use, too; ${bytes(value.own)} are its own`;
  const cells = [
    deviceOf(value, devices),
    isShared(value) ? `${value.kind}, shared` : value.kind,
    shape(value.shape),
    value.dtype,
    size,
  ];
  const name = h("td", { class: "wb-code", title: value.name }, shortened(value.name, room, NAME.letter));
  return h("tr", {}, name, ...cells.map((cell) => h("td", {}, cell)));
}

// Keeps what is chosen where it is still there.
function options(select, all, values) {
  const chosen = select.value;
  const choices = values.map((value) => h("option", { value }, value));
  select.replaceChildren(h("option", { value: ALL }, all), ...choices);
  select.value = values.includes(chosen) ? chosen : ALL;
}
