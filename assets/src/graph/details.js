// What there is to know about a node: from the graph message at once, from the kernel's answer when it came.
import { h, renew } from "../draw/dom.js";
import { bytes, number, seconds, shape } from "../draw/numbers.js";
import { statistics } from "./statistics.js";

const AGAIN_MS = 1000; // between two questions about one node while samples come

// A panel beside the drawing; `go(node)` selects another node, `close()` none.
export class Details {
  constructor(store, go, close) {
    Object.assign(this, { store, go, close, node: null, nan: null });
    this.facts = h("div");
    this.values = h("div");
    const measure = (step) => statistics(this.store, this.model, this.node, this.values, step);
    const button = h("button", { onclick: () => measure(null) }, "Value statistics");
    this.ofNaN = h("button", { hidden: true, onclick: () => measure(this.nan.step) });
    const named = { class: "wb-g-details", "aria-label": "selected node", hidden: true };
    this.element = h("aside", named, this.facts, h("div", { class: "wb-g-measures" }, this.ofNaN, button), this.values);
  }

  destroy() {
    clearTimeout(this.later);
  }

  // The first NaN of the run: what a node made in that step can be asked for as long as it is told.
  offer(nan) {
    this.nan = nan;
    this.ofNaN.hidden = !nan;
    const words = nan ? `Value statistics in step ${number(nan.step)} (${nan.title.split(" ")[0]})` : "";
    if (this.ofNaN.textContent !== words) this.ofNaN.textContent = words;
  }

  show(model, node, time) {
    const same = this.node === node && this.model === model;
    Object.assign(this, { model, node, time });
    this.element.hidden = node === null;
    if (same) return;
    clearTimeout(this.later);
    this.later = 0;
    if (node === null) return;
    this.answer = null;
    this.failed = null;
    const into = h("div"); // an answer about the node before has no place any more
    this.values.replaceWith(into);
    this.values = into;
    this.fill(true);
    this.ask(model, node);
    if (node === this.nan?.node) this.ofNaN.click(); // who comes here wants to know
  }

  // A new sample tells a new time; what was asked for stays, and is asked for again now and then.
  timed(time) {
    this.time = time;
    if (this.node === null) return;
    this.fill();
    if (this.later || !this.answer) return;
    const wait = Math.max(0, this.asked + AGAIN_MS - performance.now());
    this.later = setTimeout(() => this.ask(this.model, this.node), wait);
  }

  async ask(model, node) {
    const current = () => this.node === node && this.model === model;
    this.asked = performance.now();
    try {
      const answer = await this.store.ask({ type: "node", graph: model.message.id, node });
      if (current() && !answer.error) this.answer = answer;
      if (current()) this.failed = answer.error ?? null;
    } catch (error) {
      if (current() && !this.answer) this.failed = error.message;
    }
    if (!current()) return;
    this.later = 0;
    this.fill();
  }

  fill(another = false) {
    const { model, node, answer } = this;
    const facts = answer ?? {};
    const close = h(
      "button",
      { class: "wb-small", "aria-label": "close the node panel", title: "close (Escape)", onclick: () => this.close() },
      "×",
    );
    const held = this.element.contains(document.activeElement)
      ? (document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent)
      : null;
    if (another) this.facts.replaceChildren(); // its buttons lead to the neighbours of another node
    renew(this.facts, [
      h("div", { class: "wb-g-head" }, h("h4", {}, facts.title ?? model.label(node)), close),
      this.table(facts),
      ...this.source(facts),
      ...this.operands("inputs", facts.inputs ?? known(model, model.reads.of(node)), (operand) =>
        this.writerOf(operand),
      ),
      ...this.operands("outputs", facts.outputs ?? known(model, model.writes.of(node)), (operand) =>
        this.readerOf(operand),
      ),
      ...attributes(facts.attrs),
      ...(this.failed ? [h("p", { class: "wb-g-failed" }, this.failed)] : []),
    ]);
    if (held && !this.element.contains(document.activeElement))
      [...this.element.querySelectorAll("button")]
        .find((button) => (button.getAttribute("aria-label") ?? button.textContent) === held)
        ?.focus();
  }

  table(facts) {
    const { model, node } = this;
    const rows = [
      ["op", facts.op ?? model.type(node)],
      ["role", facts.role ?? model.roleText(node)],
      ["layer", model.layer(node)],
      [
        "device",
        facts.devices?.join(", ") ??
          model
            .devicesOf(node)
            .map((device) => model.devices[device])
            .join(", "),
      ],
      ["server", model.serverText(node)],
      ["writes", bytes(model.bytes(node))],
      ...timing(facts.timing, this.time),
      ["made at", facts.site ?? model.site(node)],
    ];
    return h(
      "dl",
      {},
      ...rows.filter(([, text]) => text).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]),
    );
  }

  source({ source }) {
    return source ? [h("pre", { class: "wb-code" }, source.trim())] : [];
  }

  operands(name, operands, leadsTo) {
    if (!operands.length) return [];
    return [
      h("h5", {}, `${name} (${operands.length})`),
      h("ul", {}, ...operands.map((operand) => this.operand(operand, leadsTo(operand)))),
    ];
  }

  operand(operand, target) {
    const { name, dtype, bytes: size, persistable } = operand;
    const title = target.node === null ? target.text : `${target.text} ${this.model.label(target.node)}`;
    const label =
      target.node === null
        ? h("span", { class: "wb-code", title }, name)
        : h("button", { class: "wb-g-link wb-code", title, onclick: () => this.go(target.node) }, name);
    const place = this.model.devicesOf(this.node).length > 1 ? this.model.devices[operand.device] : null;
    const facts = [
      place,
      dtype,
      operand.shape && shape(operand.shape),
      size == null ? null : bytes(size),
      persistable ? "persistable" : null,
    ];
    return h(
      "li",
      {},
      label,
      h(
        "span",
        { class: "wb-g-facts" },
        facts.filter(Boolean).join(" "),
        target.node === null && target.text ? `, ${target.text}` : "",
      ),
    );
  }

  // The value of the message that an operand of the kernel's answer is.
  valueOf(operand) {
    if (operand.value !== undefined) return operand.value;
    const { name, device, version } = this.model.message.value;
    const place = typeof operand.device === "number" ? operand.device : this.model.devices.indexOf(operand.device);
    const all = [...this.model.reads.of(this.node), ...this.model.writes.of(this.node)];
    return all.find(
      (v) => name[v] === operand.name && version[v] === operand.version && (place < 0 || device[v] === place),
    );
  }

  writerOf(operand) {
    const value = this.valueOf(operand);
    const node = value === undefined ? -1 : this.model.writer[value];
    if (node >= 0) return { node, text: "written by" };
    return { node: null, text: value !== undefined && this.model.message.value.data[value] ? "fed" : "from the scope" };
  }

  readerOf(operand) {
    const value = this.valueOf(operand);
    const readers = value === undefined ? [] : this.model.readers.of(value);
    return readers.length ? { node: readers[0], text: "read by" } : { node: null, text: "" };
  }
}

function known(model, values) {
  const { value, tables } = model.message;
  return [...values].map((v) => ({
    value: v,
    name: value.name[v],
    device: value.device[v],
    version: value.version[v],
    shape: value.shape[v],
    dtype: tables.dtype[value.dtype[v]],
    bytes: value.bytes[v],
    persistable: value.persistable[v],
  }));
}

function timing(times, sampled) {
  if (!times) return Number.isFinite(sampled) ? [["took", `${seconds(sampled / 1e6)} in the last step looked at`]] : [];
  const us = (value) => seconds(value == null ? null : value / 1e6);
  const over = `; mean ${us(times.mean_us)}, most ${us(times.max_us)} over ${number(times.calls)} steps`;
  const rows = [["took", `${us(times.last_us)}${times.calls === 1 ? ", in the only step looked at" : over}`]];
  if (times.thread != null) rows.push(["thread", String(times.thread)]);
  if (times.with?.length) rows.push(["timed with", [...new Set(times.with)].join(", ")]);
  return rows;
}

function attributes(attrs) {
  const all = Object.entries(attrs ?? {});
  if (!all.length) return [];
  return [
    h("h5", {}, "attributes"),
    h(
      "dl",
      {},
      ...all.flatMap(([name, text]) => [
        h("dt", { class: "wb-code" }, name),
        h("dd", { class: "wb-code" }, String(text)),
      ]),
    ),
  ];
}
