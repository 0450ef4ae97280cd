// The ops as a table, for those who rather read: sorted by any column; only the rows in sight are elements.
import { h } from "../draw/dom.js";
import { bytes, seconds } from "../draw/numbers.js";

const ROW = 24; // pixels
const SPARE = 6; // rows kept above and below those in sight

// Columns: name, the key rows are sorted by, the text shown.
export const COLUMNS = [
  ["number", (m, n) => n, (m, n) => String(n)],
  ["type", (m, n) => m.type(n)],
  ["result", (m, n) => m.result(n)],
  ["device", (m, n) => m.placeText(n)],
  ["role", (m, n) => m.roleText(n)],
  ["layer", (m, n) => m.layer(n)],
  [
    "time",
    (m, n, times) => times?.[n] ?? NaN,
    (m, n, times) => (Number.isFinite(times?.[n]) ? seconds(times[n] / 1e6) : "–"),
  ],
  ["bytes", (m, n) => m.bytes(n), (m, n) => bytes(m.bytes(n))],
  ["line", (m, n) => m.site(n) ?? ""],
];

// Node numbers in the order of a column; what has no value comes last, either way.
export function sorted(model, times, column, down) {
  const keys = Array.from({ length: model.count }, (_, n) => COLUMNS[column][1](model, n, times));
  const none = (key) => (Number.isNaN(key) || key === "" ? 1 : 0);
  const compare = typeof keys[0] === "string" ? new Intl.Collator("en", { numeric: true }).compare : (a, b) => a - b;
  const sign = down ? -1 : 1;
  return Array.from(keys.keys()).sort(
    (a, b) => none(keys[a]) - none(keys[b]) || (none(keys[a]) ? 0 : sign * compare(keys[a], keys[b])) || a - b,
  );
}

export class Table {
  constructor(select) {
    Object.assign(this, { select, column: 0, down: false, order: [], selected: null });
    this.heads = COLUMNS.map(([name], at) =>
      h("th", { scope: "col" }, h("button", { onclick: () => this.sort(at) }, name)),
    );
    this.body = h("tbody");
    this.table = h(
      "table",
      { "aria-label": "ops of the graph" },
      h("thead", {}, h("tr", {}, ...this.heads)),
      this.body,
    );
    this.element = h(
      "div",
      { class: "wb-g-table", tabindex: 0, hidden: true, onscroll: () => this.fill() },
      this.table,
    );
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  show(model, times) {
    Object.assign(this, { model, times });
    if (!this.element.hidden) this.arrange();
  }

  open(on) {
    this.element.hidden = !on;
    if (!on) return;
    this.arrange();
    this.reach(this.selected);
  }

  sort(column) {
    Object.assign(this, { down: this.column === column ? !this.down : column === 6 || column === 7, column });
    this.arrange();
  }

  arrange() {
    if (!this.model) return;
    this.order = sorted(this.model, this.times, this.column, this.down);
    this.heads.forEach((head, at) => {
      head.setAttribute("aria-sort", at !== this.column ? "none" : this.down ? "descending" : "ascending");
    });
    this.table.setAttribute("aria-rowcount", this.order.length + 1);
    this.fill();
  }

  mark(node) {
    this.selected = node;
    if (!this.element.hidden) this.reach(node);
  }

  // Scrolls to a node's row, if it is not in sight.
  reach(node) {
    const at = node === null ? -1 : this.order.indexOf(node);
    const { scrollTop, clientHeight } = this.element;
    if (at >= 0 && (at * ROW < scrollTop || (at + 2) * ROW > scrollTop + clientHeight)) {
      this.element.scrollTop = Math.max(0, at * ROW - clientHeight / 2);
    }
    this.fill();
  }

  fill() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - SPARE);
    const end = Math.min(this.order.length, first + Math.ceil((this.element.clientHeight || 400) / ROW) + 2 * SPARE);
    const space = (rows) => h("tr", { "aria-hidden": "true", style: `height: ${rows * ROW}px` });
    const rows = this.order.slice(first, end).map((node, k) => this.row(node, first + k));
    this.body.replaceChildren(space(first), ...rows, space(this.order.length - end));
  }

  row(node, at) {
    const cells = COLUMNS.map(([name, key, text = key], k) =>
      h(
        k ? "td" : "th",
        { class: k === 6 || k === 7 || !k ? "wb-g-number" : "", scope: k ? null : "row" },
        String(text(this.model, node, this.times)),
      ),
    );
    const chosen = node === this.selected;
    return h(
      "tr",
      {
        "data-row": node,
        "aria-rowindex": at + 2,
        "aria-selected": String(chosen),
        class: chosen ? "wb-g-chosen" : "",
        onclick: () => this.select(node),
      },
      ...cells,
    );
  }

  // Up and down choose the row before and after.
  key(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by || !this.order.length) return;
    event.preventDefault();
    const at = this.order.indexOf(this.selected);
    this.select(this.order[Math.max(0, Math.min(this.order.length - 1, at < 0 ? 0 : at + by))]);
  }
}
