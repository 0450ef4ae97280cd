// The scene as SVG: an element for each item, so that it can be focused, read and tested.
import { BLACK, WHITE } from "../draw/contrast.js";
import { s } from "../draw/dom.js";
import { kindName } from "./look.js";
import { MARKS } from "./marks.js";
import { svgRail } from "./rail.js";
import {
  ALPHA,
  bandShapes,
  boxShapes,
  DASHES,
  detailShape,
  FONTS,
  frameShapes,
  lineShape,
  stemShapes,
  WIDTHS,
} from "./shapes.js";

const WIDE = 4000; // on both sides of the scene

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
    this.layers.bands.replaceChildren(...bandShapes(scene).map((band) => bandElement(band, scene.width)));
    this.lines = scene.lines.source.map((_, k) => lineElement(scene.lines, k, "line"));
    this.layers.lines.replaceChildren(...this.lines);
    this.rail.show(scene, model);
  }

  paint(look) {
    this.items.forEach((parts, at) => paintItem(parts, look, at));
    // As attributes, a saved drawing has them too.
    this.layers.lines.setAttribute("opacity", look.near ? ALPHA.quiet : ALPHA.line);
    this.lines.forEach((line, k) => line.setAttribute("display", look.shows(k) ? "inline" : "none"));
    this.layers.near.replaceChildren(...(look.near ?? []).map((k) => lineElement(this.scene.lines, k, "near")));
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

function bandElement({ y, height, alpha, across }, width) {
  const place = { x: -WIDE, y, width: width + 2 * WIDE, height };
  return s("rect", { class: `wb-g-band${across ? " wb-g-across" : ""}`, ...place, opacity: alpha });
}

function itemElement(item, label) {
  const { x, y, w, h: height, group, node } = item;
  const shapes = boxShapes(item);
  const box = s("rect", { class: "wb-g-box", width: w, height, rx: 4 });
  const detail = textElement(detailShape(item, null), "wb-g-detail");
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
    ...shapes.backs.map((d) => s("rect", { class: "wb-g-box wb-g-under", x: d, y: d, width: w, height, rx: 4 })),
    box,
    s("rect", { class: "wb-g-strip", width: shapes.strip, height, rx: 2 }),
    markElement(shapes.mark),
    textElement(shapes.title, "wb-g-title"),
    detail,
    shapes.plus && textElement(shapes.plus, "wb-g-plus", { "aria-hidden": "true" }),
  );
  return { element, box, detail, item };
}

function paintItem({ element, box, detail, item }, look, at) {
  const warm = look.warm(at);
  box.style.fill = warm ? warm.fill : "";
  toggle(element, "wb-g-dark", warm?.ink === BLACK);
  toggle(element, "wb-g-light", warm?.ink === WHITE);
  const { text } = detailShape(item, warm);
  if (detail.textContent !== text) detail.textContent = text;
  element.setAttribute("opacity", look.dim(at) ? ALPHA.dim : 1);
  toggle(element, "wb-g-hit", look.hits?.has(at) ?? false);
  toggle(element, "wb-g-hot", look.hot === at);
  toggle(element, "wb-g-selected", look.selected === at);
}

const toggle = (element, name, on) => element.classList.toggle(name, on);

function lineElement(lines, k, kind) {
  const { curve, dashed } = lineShape(lines, k);
  const [x0, y0, ...rest] = curve;
  const dash = dashed ? DASHES.join(" ") : null;
  const d = `M${x0} ${y0}C${rest.join(" ")}`;
  return s("path", { class: "wb-g-line", d, "stroke-width": WIDTHS[kind], "stroke-dasharray": dash });
}

function stemElement(item) {
  const { width, lines, marks } = stemShapes(item);
  const d = lines.map(([x0, y0, x1, y1]) => `M${x0} ${y0}L${x1} ${y1}`).join("");
  const line = s("path", { d, "stroke-width": width });
  return s("g", { class: `wb-g-stem wb-g-${kindName(item)}` }, line, ...marks.map(markElement));
}

function frameElement(frame) {
  const { border, tag, title } = frameShapes(frame);
  const { x, y, w, h: height } = border;
  return s(
    "g",
    {
      class: "wb-g-frame",
      role: "button",
      tabindex: 0,
      "data-close": frame.group.index,
      "aria-expanded": "true",
      "aria-label": `${frame.group.title}, expanded; Enter collapses`,
    },
    s("rect", {
      class: "wb-g-border",
      ...{ x, y, width: w, height, rx: 5 },
      ...{ "stroke-width": WIDTHS.frame, opacity: ALPHA.frame },
    }),
    s("rect", { class: "wb-g-tag", x: tag.x, y: tag.y, width: tag.w, height: tag.h, rx: 3, opacity: ALPHA.frame }),
    textElement(title, ""),
  );
}

const markElement = ({ name, x, y, scale }) =>
  s("path", { class: "wb-g-mark", d: MARKS[name], transform: `translate(${x} ${y}) scale(${scale})` });

function textElement({ font, x, y, text }, name, more = {}) {
  const { size, weight } = FONTS[font];
  return s("text", { class: name, x, y, "font-size": size, "font-weight": weight, ...more }, text);
}
