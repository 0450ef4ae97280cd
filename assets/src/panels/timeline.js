// What ran when, on which device and thread, during a step that was looked at.
import { h } from "../draw/dom.js";
import { emptyLine, frame } from "../draw/panel.js";
import { Table } from "../draw/table.js";
import { COLUMNS } from "../timeline/columns.js";
import { History } from "../timeline/history.js";
import { KINDS, kindSymbol } from "../timeline/ink.js";
import { lanesOf } from "../timeline/lanes.js";
import { Picture } from "../timeline/picture.js";
import { Shown } from "../timeline/shown.js";
import { Spans } from "../timeline/spans.js";
import { noteWords } from "../timeline/words.js";
import { save } from "../files.js";

const MINE = ["sample", "samples", "graph", "selected", "theme"];
const EMPTY = "Here you will see which op ran when on which device, as soon as a step has been looked at.";

export function timeline(store) {
  return new Timeline(store);
}

class Timeline {
  constructor(store) {
    this.store = store;
    this.shown = new Shown((message) => store.send(message));
    this.spans = null;
    this.picture = new Picture((span, device) => this.choose(span, device));
    this.table = new Table({
      label: "spans of the step",
      name: "wb-timeline-table",
      columns: COLUMNS,
      column: COLUMNS.findIndex(({ name }) => name === "duration"),
      choose: (span) => this.choose(span),
    });
    this.history = new History({ choose: (step) => this.go(step), follow: () => this.follow() });
    this.asTable = false;
    this.build();
  }

  build() {
    this.switch = h(
      "button",
      { class: "wb-small", "aria-pressed": "false", "aria-label": "timeline as a table", onclick: () => this.turn() },
      "table",
    );
    const trace = h(
      "button",
      {
        class: "wb-small",
        "aria-label": "save the timeline as a Chrome trace",
        title: "save the step that is shown for Perfetto or chrome://tracing",
        onclick: () =>
          this.store.ask({ type: "trace", step: this.shown.sample?.step ?? null }).then(
            (file) => save(file, this.element),
            () => {},
          ),
      },
      "Chrome trace",
    );
    const panel = frame({
      name: "timeline",
      title: "Timeline",
      wide: true,
      drawings: () => this.drawings(),
      keys: () => this.shownKeys(),
      subject: () => this.store.subject,
      tools: [this.switch, trace],
    });
    Object.assign(this, { element: panel.element, note: panel.note, saving: panel.saving });
    this.empty = emptyLine(EMPTY);
    this.content = h(
      "div",
      { hidden: true },
      this.history.element,
      this.bar(),
      this.picture.element,
      this.table.element,
    );
    panel.body.append(this.empty.element, this.content);
    this.tools = [...panel.element.querySelectorAll("header button")];
    for (const tool of this.tools) tool.disabled = true;
  }

  // A table has no picture: then the drawing is shown again.
  drawings() {
    if (this.asTable) this.turn();
    return [{ element: this.picture.drawing() }];
  }

  shownKeys() {
    return KINDS.filter((kind) => !this.keys[kind].hidden).map((kind) => ({ symbol: kindSymbol(kind), text: kind }));
  }

  bar() {
    const swatch = (kind) => h("span", { class: `wb-timeline-swatch wb-${kind}` });
    this.keys = Object.fromEntries([...KINDS, "idle"].map((kind) => [kind, h("span", {}, swatch(kind), kind)]));
    const button = (text, title, act) =>
      h("button", { class: "wb-small", title, "aria-label": title, onclick: act }, text);
    this.zooms = h(
      "span",
      { class: "wb-timeline-zooms" },
      button("longest op of this step", "zoom to the longest op of this step", () => this.toLongest()),
      button("−", "zoom out", () => this.picture.zoom(1.6, this.picture.middle())),
      button("+", "zoom in", () => this.picture.zoom(1 / 1.6, this.picture.middle())),
      button("whole step", "show the whole step", () => this.picture.whole()),
    );
    return h(
      "div",
      { class: "wb-timeline-bar" },
      h("span", { class: "wb-timeline-keys" }, ...Object.values(this.keys)),
      this.zooms,
    );
  }

  update(kinds) {
    if (kinds.has("state")) this.empty.update(this.store.state);
    if (!MINE.some((kind) => kinds.has(kind))) return;
    this.another(this.store.state?.run?.id);
    const other = (kinds.has("sample") || kinds.has("samples")) && this.shown.take(this.store.sample, this.steps);
    if (other || kinds.has("graph")) this.show();
    else if (kinds.has("samples")) this.list();
    if (!other && kinds.has("sample")) this.say();
    if (kinds.has("selected")) this.mark(true);
    if (!kinds.has("theme")) return;
    this.picture.later();
    this.history.draw();
  }

  // Steps of another run have the same numbers: what was chosen of the run before means nothing.
  another(run) {
    if (run === this.run) return;
    this.run = run;
    this.shown.forget();
  }

  destroy() {
    this.picture.destroy();
  }

  get steps() {
    return this.store.samples?.step ?? [];
  }

  show() {
    const { sample } = this.shown;
    this.empty.element.hidden = Boolean(sample);
    this.content.hidden = !sample;
    for (const tool of this.tools) tool.disabled = !sample;
    if (!sample) return this.clear();
    this.spans = new Spans(sample, this.store.graph, this.store.state?.subject?.devices);
    this.say();
    this.picture.show(this.spans, lanesOf(this.spans));
    this.table.show(this.spans, this.spans.count);
    this.showAs();
    for (const kind of KINDS) this.keys[kind].hidden = !this.spans.kinds.includes(kind);
    this.list();
    this.mark(false);
  }

  clear() {
    this.spans = null;
    this.note.textContent = "";
  }

  say() {
    if (!this.spans) return;
    const words = noteWords(this.spans, this.store.sample ?? undefined);
    if (this.note.textContent !== words) this.note.textContent = words;
  }

  list() {
    const { sample, chosen, waiting } = this.shown;
    this.history.show(this.store.samples ?? undefined, { shown: sample?.step, chosen, waiting });
  }

  mark(reveal) {
    if (!this.spans) return;
    const node = this.spans.graph ? this.store.selected : null;
    this.picture.highlight(node, reveal);
    this.table.highlight(this.spans.of(node), reveal);
  }

  // A click on a span; spans of another graph, or unknown ones, lead to no node.
  choose(span, device) {
    const node = this.spans.nodes(span, device)[0];
    if (node !== undefined) this.store.select(node);
  }

  go(step) {
    this.shown.choose(step);
    this.changed();
  }

  follow() {
    this.shown.follow(this.steps);
    this.changed();
  }

  changed() {
    if (this.shown.sample && this.shown.sample !== this.spans?.sample) this.show();
    else this.list();
  }

  toLongest() {
    const { longest } = this.picture;
    if (!longest) return;
    this.picture.take(longest);
    this.picture.zoomTo(longest);
  }

  turn() {
    this.asTable = !this.asTable;
    this.switch.setAttribute("aria-pressed", String(this.asTable));
    this.showAs();
    if (!this.spans) return;
    if (this.asTable) return;
    this.picture.draw(); // hidden, it had no size and could not be scrolled
    this.mark(true);
  }
  // A step whose ops were not timed has nothing to draw.
  showAs() {
    const any = this.spans?.count > 0;
    this.saving(any);
    this.picture.element.hidden = this.asTable || !any;
    const listed = this.asTable && any;
    if (listed === this.table.element.hidden) this.table.open(listed);
    this.zooms.hidden = this.asTable || !any;
  }
}
