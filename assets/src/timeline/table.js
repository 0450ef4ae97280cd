// The spans of a step as a table, for those who want to read or sort them.
import { h } from "../draw/dom.js";
import { count } from "../draw/numbers.js";
import { percent, time } from "./words.js";

const FIRST = 100; // rows before "show all"

const COLUMNS = [
  { key: "op", of: (spans, i) => spans.name(i) },
  { key: "device", of: (spans, i) => spans.where(i) },
  { key: "thread", of: (spans, i) => spans.thread(i), numeric: true },
  { key: "start", of: (spans, i) => spans.start[i], text: time, numeric: true },
  { key: "duration", of: (spans, i) => spans.lasts(i), text: time, numeric: true },
  { key: "share", of: (spans, i) => spans.lasts(i), shown: (spans, i) => percent(spans.share(i)), numeric: true },
];

// Positions of all spans by a column: numbers largest first, or the other way round.
export function sorted(spans, key, ascending) {
  const { of, numeric } = COLUMNS.find((column) => column.key === key);
  const values = Array.from({ length: spans.count }, (_, i) => of(spans, i));
  const compare = numeric ? (a, b) => values[a] - values[b] : (a, b) => values[a].localeCompare(values[b], "en");
  return [...values.keys()].sort((a, b) => (ascending ? compare(a, b) : compare(b, a)) || a - b);
}

export class Table {
  constructor(choose) {
    this.choose = choose;
    Object.assign(this, { key: "duration", ascending: false, all: false, spans: null, chosen: new Set() });
    this.element = h("div", { class: "wb-timeline-table" });
  }

  show(spans) {
    this.spans = spans;
    this.draw();
  }

  highlight(chosen) {
    this.chosen = new Set(chosen);
    for (const row of this.element.querySelectorAll("tr[data-span]")) this.mark(row, Number(row.dataset.span));
  }

  mark(row, span) {
    row.classList.toggle("wb-chosen", this.chosen.has(span));
    if (this.chosen.has(span)) row.setAttribute("aria-selected", "true");
    else row.removeAttribute("aria-selected");
  }

  sort(key) {
    this.ascending = key === this.key ? !this.ascending : key === "op" || key === "device" || key === "start";
    this.key = key;
    this.draw();
    this.element.querySelector(`[data-key="${key}"]`).focus();
  }

  // What has the focus: a heading, the op of a row (its place and node), or the button below.
  held() {
    const { activeElement: active } = document;
    if (!this.element.contains(active) || active === this.element) return null;
    const row = active.closest("tr[data-span]");
    if (!row) return { key: active.dataset.key };
    return { at: row.sectionRowIndex, node: this.drawn.nodes(Number(row.dataset.span))[0] };
  }

  // Spans of another step have other numbers: the row of the same node, else the one in the same place.
  hold({ key, at, node }) {
    const rows = [...this.element.querySelectorAll("tr[data-span]")];
    const same = this.spans.of(node).map(String);
    const row = rows.find(({ dataset }) => same.includes(dataset.span)) ?? rows[Math.min(at ?? 0, rows.length - 1)];
    const other = key ? `[data-key="${key}"]` : "table + button";
    const found = at === undefined ? this.element.querySelector(other) : row?.querySelector("button");
    found?.focus({ preventScroll: true });
  }

  draw() {
    const held = this.held();
    const order = sorted(this.spans, this.key, this.ascending);
    const shown = this.all ? order : order.slice(0, FIRST);
    const rows = shown.map((i) => this.row(i));
    const table = h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ...COLUMNS.map((one) => this.head(one)))),
      h("tbody", {}, ...rows),
    );
    const more = () => {
      this.all = true;
      this.draw();
      this.element.querySelectorAll("tr[data-span] button")[FIRST]?.focus();
    };
    const rest = order.length - shown.length;
    const button = rest
      ? h("button", { class: "wb-small", onclick: more }, `show all ${count(order.length)} spans`)
      : null;
    const { scrollTop } = this.element;
    this.element.replaceChildren(...[table, button].filter(Boolean));
    this.element.scrollTop = scrollTop;
    this.drawn = this.spans;
    if (held) this.hold(held);
  }

  head({ key, numeric }) {
    const mine = key === this.key;
    const mark = mine ? (this.ascending ? " ▲" : " ▼") : "";
    const button = h("button", { class: "wb-small", "data-key": key, onclick: () => this.sort(key) }, key + mark);
    const order = mine ? (this.ascending ? "ascending" : "descending") : "none";
    return h("th", { scope: "col", "aria-sort": order, class: numeric ? "wb-number" : null }, button);
  }

  row(i) {
    const cells = COLUMNS.slice(1).map((column) =>
      h("td", { class: column.numeric ? "wb-number" : null }, cell(this.spans, i, column)),
    );
    const op = h("button", { class: "wb-link", onclick: () => this.choose(i) }, this.spans.name(i));
    const kind = h("span", { class: `wb-timeline-swatch wb-${this.spans.kinds[i]}`, title: this.spans.kinds[i] });
    const row = h("tr", { "data-span": i }, h("td", {}, h("div", {}, kind, op)), ...cells);
    this.mark(row, i);
    return row;
  }
}

function cell(spans, i, { of, shown, text = String }) {
  return shown ? shown(spans, i) : text(of(spans, i));
}
