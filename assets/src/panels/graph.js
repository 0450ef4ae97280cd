// The SSA graph: drawing or table, search, heat map, and what is known of the selected node.
import { ROLES } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { count } from "../draw/numbers.js";
import { frame } from "../draw/panel.js";
import { slowestWords } from "../draw/slowest.js";
import { Table } from "../draw/table.js";
import { COLUMNS } from "../graph/columns.js";
import { Details } from "../graph/details.js";
import { Folds } from "../graph/fold.js";
import { heatOf, MODES } from "../graph/heat.js";
import { legend, legendKeys } from "../graph/legend.js";
import { COLLECTIVE, KINDS, Model, serversOf } from "../graph/model.js";
import { Search } from "../graph/search.js";
import { nodeTimes } from "../graph/times.js";
import { tools } from "../graph/tools.js";
import { View } from "../graph/view.js";

const isSame = (a, b) => a.id === b.id && a.title === b.title && a.servers && sameNames(a, b);
const sameNames = (a, b) => `${a.node.label} ${a.servers.name}` === `${b.node.label} ${b.servers?.name}`;

export function graph(store) {
  return new GraphPanel(store);
}

class GraphPanel {
  constructor(store) {
    Object.assign(this, { store, model: null, shape: null, times: null, mode: "none", message: null });
    this.view = new View({
      select: (node) => store.select(node),
      changed: () => {
        this.tools?.hidden(this.hiddenLines());
        this.keys();
      },
    });
    const choose = (node) => store.select(node);
    this.table = new Table({ label: "ops of the graph", name: "wb-g-table", columns: COLUMNS, choose });
    this.details = new Details(
      store,
      (node) => store.select(node),
      () => store.select(null),
    );
    this.tools = tools(this.actions());
    const { element, body, note, saving } = frame({
      name: "graph",
      title: "SSA graph",
      wide: true,
      drawings: () => [{ element: this.drawing() }],
      keys: () => legendKeys(this.legend),
      subject: () => this.subject(),
      tools: [this.tools.table],
    });
    Object.assign(this, { element, note, saving });
    this.legend = h("div", { class: "wb-g-legend", role: "group", "aria-label": "legend" });
    this.empty = h(
      "p",
      { class: "wb-g-empty" },
      "The graph of ops, devices and collectives appears here with the first run or exe.graph().",
    );
    this.full = h(
      "div",
      { hidden: true },
      this.tools.element,
      this.legend,
      h("div", { class: "wb-g-main" }, this.view.element, this.table.element, this.details.element),
    );
    body.append(this.empty, this.full);
    for (const kind of KINDS) element.style.setProperty(`--wb-${kind}`, ROLES[kind]);
  }

  destroy() {
    this.details.destroy();
    this.view.close();
  }

  update(kinds) {
    if (kinds.has("graph")) this.load(this.store.graph);
    if (!this.model) return;
    if (kinds.has("state")) this.details.offer(this.store.state?.run?.nan ?? null);
    if (kinds.has("sample")) this.sampled();
    if (kinds.has("selected")) this.selected();
    if (kinds.has("theme")) this.view.resized();
    if (kinds.has("state") || kinds.has("sample")) this.replay();
  }

  load(message) {
    if (!message || message === this.message) return;
    if (this.message && isSame(message, this.message)) return this.told(message);
    this.message = message;
    this.empty.hidden = true;
    this.full.hidden = false;
    this.saving(true);
    const model = new Model(message);
    const folds = new Folds(model);
    const shape = folds.shape();
    const keep = shape === this.shape;
    Object.assign(this, { model, folds, shape });
    this.search = new Search(model);
    this.view.search = this.search;
    this.view.load(model, folds, keep);
    this.sampled();
    this.find(this.tools.query());
    this.selected();
  }

  // The same graph, of which servers have told more.
  told(message) {
    this.model.servers = serversOf(message);
    this.keys();
  }

  sampled() {
    const { model, store } = this;
    this.times = nodeTimes(model, store.sample);
    this.table.show({ model, times: this.times }, model.count);
    this.details.timed(this.times?.[store.selected]);
    this.note.textContent = this.summary();
    this.warm();
  }

  summary() {
    const { model } = this;
    const { sample } = this.store;
    const collectives = model.counts().kinds[COLLECTIVE];
    const many = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;
    const parts = [
      many(model.count, "node"),
      ...(collectives ? [many(collectives, "collective")] : []),
      many(model.devices.length, "device"),
      ...(model.servers.length ? [many(model.servers.length, "server")] : []),
    ];
    const slowest = sample?.graph === model.message.id ? slowestWords(sample, model.devices) : "";
    return [parts.join(", "), slowest].filter(Boolean).join("; ");
  }

  warm() {
    this.view.heat = heatOf(this.mode, this.model, this.store.sample);
    this.keys();
    this.view.draw();
  }

  // The scale is that of the boxes that are drawn.
  keys() {
    if (this.legend) legend(this.legend, this.model, this.view.scale(), this.mode, (query) => this.tools.ask(query));
  }

  selected() {
    const node = this.store.selected;
    const valid = Number.isInteger(node) && node >= 0 && node < this.model.count ? node : null;
    this.details.show(this.model, valid, this.times?.[valid]);
    this.view.resized();
    this.view.choose(valid);
    this.table.highlight(valid === null ? [] : [valid], true);
  }

  replay() {
    const { state, sample } = this.store;
    this.view.replay(state?.run?.state === "running" ? sample : null);
  }

  find(query) {
    this.search.find(query);
    this.tools.hits(this.search.text());
    this.view.draw();
  }

  step(by) {
    const node = this.search.step(by);
    this.tools.hits(this.search.text());
    if (node === null) return;
    if (node === this.store.selected) this.view.reveal(node);
    this.store.select(node);
    this.view.draw();
  }

  hiddenLines() {
    return this.view.scene.lines.skip.reduce((sum, skip) => sum + skip, 0);
  }

  subject() {
    const { subject } = this.store;
    const { title } = this.message;
    return [subject, subject.includes(title) ? "" : title].filter(Boolean).join(", ");
  }

  // Only a drawing that is shown has a size to be saved with.
  drawing() {
    this.tools.drawing();
    return this.view.drawing.element;
  }

  actions() {
    const { view } = this;
    return {
      find: (query) => this.model && this.find(query),
      step: (by) => this.model && this.step(by),
      zoom: (factor) => view.zoom(factor),
      fit: () => view.fit(),
      expand: () => view.setOpen(this.folds.all()),
      collapse: () => view.setOpen(new Set()),
      all: (on) => {
        view.all = on;
        view.draw();
      },
      heat: (mode) => {
        this.mode = mode;
        this.warm();
      },
      table: (on) => {
        if (!this.model) return;
        view.element.hidden = on;
        this.table.open(on);
      },
      modes: MODES,
    };
  }
}
