// A table of any length: sorted by any column, only the rows in sight are elements. The keyboard's place is the table.
import { h } from "./dom.js";

const ROW = 24; // pixels
const SPARE = 6; // rows kept above and below those in sight

// Row numbers in the order of a column; what has no value comes last, either way.
export function sorted(source, count, { of }, down) {
  const keys = Array.from({ length: count }, (_, row) => of(source, row));
  const none = (key) => (Number.isNaN(key) || key === "" ? 1 : 0);
  const compare = typeof keys[0] === "string" ? new Intl.Collator("en", { numeric: true }).compare : (a, b) => a - b;
  const sign = down ? -1 : 1;
  return [...keys.keys()].sort(
    (a, b) => none(keys[a]) - none(keys[b]) || (none(keys[a]) ? 0 : sign * compare(keys[a], keys[b])) || a - b,
  );
}

// columns: {name, of(source, row): what rows are sorted by, text(source, row): what is shown, if that is something else,
// numeric, falling: the largest first, symbol(source, row): an element before the text}.
export class Table {
  constructor({ label, name, columns, column = 0, choose }) {
    const down = Boolean(columns[column].falling);
    Object.assign(this, {
      columns,
      column,
      down,
      choose,
      source: null,
      count: 0,
      order: [],
      chosen: new Set(),
      at: -1,
    });
    this.heads = columns.map(({ name: key, numeric }, k) => {
      const button = h("button", { "data-key": key, onclick: () => this.sort(k) }, key);
      return h("th", { scope: "col", class: numeric ? "wb-number" : null }, button);
    });
    this.body = h("tbody");
    this.table = h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, ...this.heads)), this.body);
    this.element = h("div", { class: `wb-table ${name}`, tabindex: 0, onscroll: () => this.fill() }, this.table);
    this.element.hidden = true;
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  show(source, count) {
    Object.assign(this, { source, count });
    if (!this.element.hidden) this.arrange();
  }

  open(on) {
    this.element.hidden = !on;
    if (!on) return;
    this.arrange();
    this.reach();
  }

  sort(column) {
    this.down = this.column === column ? !this.down : Boolean(this.columns[column].falling);
    this.column = column;
    this.arrange();
  }

  arrange() {
    if (!this.source) return;
    this.order = sorted(this.source, this.count, this.columns[this.column], this.down);
    this.heads.forEach((head, k) => {
      head.setAttribute("aria-sort", k !== this.column ? "none" : this.down ? "descending" : "ascending");
    });
    this.table.setAttribute("aria-rowcount", this.order.length + 1);
    this.fill();
  }

  // Other rows are chosen; `reveal` scrolls to the first of them.
  highlight(rows, reveal) {
    this.chosen = new Set(rows);
    if (!this.chosen.has(this.at)) this.at = rows[0] ?? -1;
    if (this.element.hidden) return;
    if (reveal) this.reach();
    else this.fill();
  }

  // Scrolls to the row the keyboard is at, if it is not in sight.
  reach() {
    const place = this.order.indexOf(this.at);
    const { scrollTop, clientHeight } = this.element;
    if (place >= 0 && (place * ROW < scrollTop || (place + 2) * ROW > scrollTop + clientHeight))
      this.element.scrollTop = Math.max(0, place * ROW - clientHeight / 2);
    this.fill();
  }

  fill() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - SPARE);
    const end = Math.min(this.order.length, first + Math.ceil((this.element.clientHeight || 400) / ROW) + 2 * SPARE);
    const space = (rows) => (rows > 0 ? [h("tr", { "aria-hidden": "true", style: `height: ${rows * ROW}px` })] : []);
    const rows = this.order.slice(first, end).map((row, k) => this.row(row, first + k));
    this.body.replaceChildren(...space(first), ...rows, ...space(this.order.length - end));
  }

  row(row, place) {
    const cells = this.columns.map(({ of, text = of, numeric, symbol }, k) => {
      const words = String(text(this.source, row));
      const kind = { class: numeric ? "wb-number" : null, scope: k ? null : "row" };
      return h(k ? "td" : "th", kind, symbol?.(this.source, row), words);
    });
    const chosen = this.chosen.has(row);
    const about = { "data-row": row, "aria-rowindex": place + 2, "aria-selected": String(chosen) };
    return h("tr", { ...about, class: chosen ? "wb-chosen" : null, onclick: () => this.take(row) }, ...cells);
  }

  take(row) {
    this.at = row;
    this.choose(row);
  }

  // Up and down choose the row before and after.
  key(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!by || !this.order.length) return;
    event.preventDefault();
    const place = this.order.indexOf(this.at);
    this.take(this.order[Math.max(0, Math.min(this.order.length - 1, place < 0 ? 0 : place + by))]);
    this.reach();
  }
}
