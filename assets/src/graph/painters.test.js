// SVG and canvas paint the same scene: what each of them puts where is compared, by stand-ins for a page that keep it.
import assert from "node:assert/strict";
import test from "node:test";
import { training } from "../../fixtures/graph.js";
import { Folds } from "./fold.js";
import { heatOf } from "./heat.js";
import { layout } from "./layout.js";
import { Look } from "./look.js";
import { Model } from "./model.js";
import { Search } from "./search.js";

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, children: [], style: {}, names: new Set() });
    this.classList = { toggle: (name, on) => this.names[on ? "add" : "delete"](name) };
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  append(...children) {
    this.children.push(...children);
  }

  replaceChildren(...children) {
    this.children = children;
  }

  get textContent() {
    return this.children.join("");
  }

  set textContent(text) {
    this.children = [text];
  }

  getContext() {
    return (this.context ??= new Context());
  }

  get is() {
    return (this.attributes.class ?? "").split(" ");
  }
}

// Keeps what was painted, as [what, place on the scene, …, opacity]; knows no other transforms than moving.
class Context {
  constructor() {
    Object.assign(this, { painted: [], path: [], globalAlpha: 1, at: [0, 0], kept: [], dash: [] });
  }

  setTransform() {
    this.at = [0, 0];
  }

  save() {
    this.kept.push(this.at);
  }

  restore() {
    this.at = this.kept.pop();
  }

  translate(x, y) {
    this.at = [this.at[0] + x, this.at[1] + y];
  }

  scale() {}

  setLineDash(dash) {
    this.dash = dash;
  }

  beginPath() {
    Object.assign(this, { path: [], filled: false });
  }

  rect(...place) {
    this.path.push(["box", ...place]);
  }

  moveTo(x, y) {
    this.from = [x, y];
  }

  lineTo(x, y) {
    this.path.push(["stem", ...this.from, x, y]);
  }

  bezierCurveTo(...more) {
    this.path.push(["line", ...this.from, ...more]);
  }

  stroke() {
    const dashed = this.dash.length > 0;
    for (const [kind, ...place] of this.path) {
      if (kind === "line") this.painted.push([kind, ...place, this.lineWidth, dashed]);
      else if (kind === "stem") this.painted.push([kind, ...place, this.lineWidth]);
      else if (!this.filled) this.painted.push(["frame", ...place, this.lineWidth, this.globalAlpha]);
    }
  }

  fill(mark) {
    this.filled ||= !mark;
    if (mark) this.painted.push(["mark", mark.d, ...this.at]);
    else for (const part of this.path) this.painted.push([...part, this.globalAlpha]);
  }

  fillRect(x, y, w, h) {
    this.painted.push(["rect", x, y, w, h]);
  }

  strokeRect() {}

  fillText(text, x, y) {
    this.painted.push(["text", text, x, y, this.font, this.globalAlpha]);
  }
}

globalThis.Path2D = class {
  constructor(d) {
    this.d = d;
  }
};
globalThis.devicePixelRatio = 1;
globalThis.document = {
  createElement: (tag) => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
};
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "#fff" });

const { CanvasDrawing } = await import("./canvas.js");
const { SvgDrawing } = await import("./svg.js");

const numbers = (text) => text.match(/-?[\d.]+(e-?\d+)?/g).map(Number);

// What an SVG drawing shows, in the words of the canvas.
function shownBy(element, at = [0, 0], opacity = 1) {
  const { tag, attributes: a, is } = element;
  if (tag === undefined || a.display === "none" || is.includes("wb-g-rail")) return [];
  const alpha = opacity * (a.opacity ?? 1);
  const place = a.transform?.startsWith("translate") ? numbers(a.transform) : [0, 0];
  const here = [at[0] + place[0], at[1] + place[1]];
  if (tag === "text") {
    const font = `${a["font-weight"]} ${a["font-size"]}px system-ui, sans-serif`;
    return [["text", element.textContent, here[0] + a.x, here[1] + a.y, font, alpha]];
  }
  if (is.includes("wb-g-box")) return [["box", here[0] + (a.x ?? 0), here[1] + (a.y ?? 0), a.width, a.height, alpha]];
  if (is.includes("wb-g-border")) return [["frame", a.x, a.y, a.width, a.height, a["stroke-width"], alpha]];
  if (is.includes("wb-g-mark")) return [["mark", a.d, ...here]];
  if (is.includes("wb-g-line")) return [["line", ...numbers(a.d), a["stroke-width"], "stroke-dasharray" in a]];
  if (tag === "path")
    return a.d
      .split("M")
      .slice(1)
      .map((d) => ["stem", ...numbers(d), a["stroke-width"]]);
  return element.children.filter((child) => child instanceof Element).flatMap((child) => shownBy(child, here, alpha));
}

const camera = {
  ...{ k: 1, x: 0, y: 0, width: 1e6, height: 1e6 },
  window: () => ({ left: -1e6, right: 1e6, top: -1e6, bottom: 1e6 }),
};
const KINDS = ["box", "frame", "mark", "text", "line", "stem"];
const sorted = (painted) =>
  painted
    .filter(([kind]) => KINDS.includes(kind))
    .map((part) => JSON.stringify(part))
    .sort();

function both(scene, model, look) {
  const drawings = [new SvgDrawing(), new CanvasDrawing()];
  for (const drawing of drawings) {
    drawing.show(scene, (at) => `item ${at}`, model);
    drawing.move(camera, look);
  }
  const [svg, canvas] = drawings;
  canvas.texts.forEach(() => canvas.context.painted.pop()); // the rail comes last
  return [sorted(shownBy(svg.world)), sorted(canvas.context.painted)];
}

const message = training({ devices: 2, layers: 6, fetch: true });
message.edge.order[3] = 1;
const model = new Model(message);
const folds = new Folds(model);
const search = new Search(model);
search.find("relu");
const looks = {
  nothing: () => ({}),
  "what was searched for": () => ({ search }),
  "a selected node and its lines": () => ({ selected: 4 }),
  "all lines": () => ({ all: true }),
  "how many bytes are written": () => ({ heat: heatOf("bytes", model, null) }),
};

for (const [what, look] of Object.entries(looks)) {
  for (const [open, title] of [
    [folds.begin(), "folded"],
    [folds.all(), "open"],
  ]) {
    test(`SVG and canvas show the same of a graph that is ${title}, with ${what}`, () => {
      const scene = layout(model, folds, open);
      const [svg, canvas] = both(scene, model, new Look(scene, look()));
      const any = new Set(svg.map((part) => JSON.parse(part)[0]));
      assert.deepEqual([...any].sort(), KINDS.filter((kind) => kind !== "frame" || title === "open").sort());
      assert.ok(title !== "open" || svg.some((part) => part.endsWith("true]"))); // a line along which no data go
      assert.deepEqual(canvas, svg);
    });
  }
}
