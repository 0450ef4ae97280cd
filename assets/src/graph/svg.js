// The scene as SVG: an element for each item, so that it can be focused, read and tested.
import { BLACK, WHITE } from "../draw/contrast.js";
import { s } from "../draw/dom.js";
import { BOX } from "./bands.js";
import { kindName } from "./look.js";
import { curvePath, MARKS, shortened } from "./marks.js";
import { svgRail } from "./rail.js";

export class SvgDrawing {
  constructor() {
    this.rail = svgRail();
    this.layers = Object.fromEntries(
      ["bands", "frames", "lines", "near", "stems", "items"].map((name) => [name, s("g", { class: `wb-g-${name}` })]),
    );
    this.world = s("g", {}, ...Object.values(this.layers));
    this.element = s(
      "svg",
      { class: "wb-g-svg", role: "group", "aria-label": "graph drawing" },
      this.world,
      this.rail.element,
    );
    this.items = [];
  }

  show(scene, labels, model) {
    this.scene = scene;
    this.items = scene.items.map((item, at) => itemElement(item, labels(at)));
    this.layers.items.replaceChildren(...this.items.map(({ element }) => element));
    this.layers.stems.replaceChildren(...scene.items.filter((item) => item.stem).map(stemElement));
    this.layers.frames.replaceChildren(...scene.frames.map(frameElement));
    this.layers.bands.replaceChildren(...bandElements(scene));
    this.lines = scene.lines.source.map((_, k) => lineElement(scene.lines, k));
    this.layers.lines.replaceChildren(...this.lines);
    this.rail.show(scene, model);
  }

  paint(look) {
    this.element.classList.toggle("wb-g-focused", look.near !== null);
    this.items.forEach((parts, at) => paintItem(parts, look, at));
    // As an attribute, a saved drawing has it too.
    this.lines.forEach((line, k) => line.setAttribute("display", look.shows(k) ? "inline" : "none"));
    this.layers.near.replaceChildren(...(look.near ?? []).map((k) => lineElement(this.scene.lines, k)));
  }

  // The camera moved; a look where that is another as well.
  move(camera, look) {
    if (look) this.paint(look);
    this.element.setAttribute("width", camera.width);
    this.element.setAttribute("height", camera.height);
    this.world.setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.k})`);
    this.rail.move(camera);
  }

  // Only one item is reached by Tab; arrow keys lead to the others.
  cursor(at, focus) {
    this.items.forEach(({ element }, k) => element.setAttribute("tabindex", k === at ? 0 : -1));
    if (focus) this.items[at]?.element.focus({ preventScroll: true });
  }
}

function bandElements({ devices, lanes, shared, width }) {
  const band = (y, height, name) => s("rect", { class: `wb-g-band ${name}`, x: -4000, y, width: width + 8000, height });
  const across = lanes[shared];
  return [
    ...devices.map(({ y, height }) => band(y, height, "")),
    ...(across.rows ? [band(across.top, across.height, "wb-g-across")] : []),
  ];
}

function itemElement(item, label) {
  const { x, y, w, h: height, group, node } = item;
  const box = s("rect", { class: "wb-g-box", width: w, height, rx: 4 });
  const back = group
    ? [6, 3].map((d) => s("rect", { class: "wb-g-box wb-g-under", x: d, y: d, width: w, height, rx: 4 }))
    : [];
  const detail = s("text", { class: "wb-g-detail", x: 20, y: 26 }, shortened(item.detail, w - 26, 5.7));
  const element = s(
    "g",
    {
      class: `wb-g-item wb-g-${kindName(item)}`,
      transform: `translate(${x} ${y})`,
      role: "button",
      tabindex: -1,
      "aria-label": label,
      "data-node": group ? null : node,
      "data-group": group ? group.index : null,
      "aria-expanded": group ? "false" : null,
    },
    ...back,
    box,
    s("rect", { class: "wb-g-strip", width: 4, height, rx: 2 }),
    s("path", { class: "wb-g-mark", d: MARKS[kindName(item)], transform: "translate(8 6) scale(0.85)" }),
    s("text", { class: "wb-g-title", x: 20, y: 14 }, shortened(item.title, w - 26 - (group ? 14 : 0), 6.6)),
    detail,
    group ? s("text", { class: "wb-g-plus", x: w - 13, y: 15, "aria-hidden": "true" }, "+") : null,
  );
  return { element, box, detail, item };
}

function paintItem({ element, box, detail, item }, look, at) {
  const warm = look.warm(at);
  box.style.fill = warm ? warm.fill : "";
  toggle(element, "wb-g-dark", warm?.ink === BLACK);
  toggle(element, "wb-g-light", warm?.ink === WHITE);
  const text = shortened(warm ? warm.text : item.detail, item.w - 26, 5.7);
  if (detail.textContent !== text) detail.textContent = text;
  toggle(element, "wb-g-dim", look.dim(at));
  toggle(element, "wb-g-hit", look.hits?.has(at) ?? false);
  toggle(element, "wb-g-hot", look.hot === at);
  toggle(element, "wb-g-selected", look.selected === at);
}

const toggle = (element, name, on) => element.classList.toggle(name, on);

function lineElement(lines, k) {
  return s("path", { class: lines.order[k] ? "wb-g-line wb-g-order" : "wb-g-line", d: curvePath(lines, k) });
}

// The stem goes through all devices; each that takes part has a mark on it.
function stemElement(item) {
  const { stem, x, y } = item;
  const { x: at, top, bottom, marks } = stem;
  return s(
    "g",
    { class: `wb-g-stem wb-g-${kindName(item)}` },
    s("path", { d: `M${at} ${top}V${bottom}M${at} ${y + BOX / 2}H${x}` }),
    ...marks.map((mark) =>
      s("path", { class: "wb-g-mark", d: MARKS[kindName(item)], transform: `translate(${at - 5} ${mark.y - 5})` }),
    ),
  );
}

function frameElement({ x, y, w, h: height, tag, group }) {
  return s(
    "g",
    {
      class: "wb-g-frame",
      role: "button",
      tabindex: 0,
      "data-close": group.index,
      "aria-expanded": "true",
      "aria-label": `${group.title}, expanded; Enter collapses`,
    },
    s("rect", { class: "wb-g-border", x, y, width: w, height, rx: 5 }),
    s("rect", { class: "wb-g-tag", x: tag.x, y: tag.y, width: tag.w, height: tag.h, rx: 3 }),
    s("text", { x: tag.x + 5, y: tag.y + 10 }, `− ${shortened(group.title, tag.w - 18, 5.6)}`),
  );
}
