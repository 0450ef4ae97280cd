// The scene on a canvas, for graphs too large for SVG: only what is seen is drawn, boxes of one colour together.
import { ROLES, theme } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { RAIL } from "./camera.js";
import { columnsIn } from "./find.js";
import { roleColor } from "./look.js";
import { MARKS } from "./marks.js";
import { railPlace, railText, railTexts } from "./rail.js";
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

const FACE = "system-ui, sans-serif";
const BEHIND = [6, 3]; // where boxes behind a box may be

const TEXT_FROM = 0.45; // scale
const REACH = 60; // scene units that stems are before their column

export class CanvasDrawing {
  constructor() {
    this.element = h("canvas", { class: "wb-g-canvas", tabindex: 0, role: "application" });
    this.context = this.element.getContext("2d");
    this.marks = Object.fromEntries(Object.entries(MARKS).map(([name, path]) => [name, new Path2D(path)]));
  }

  show(scene, labels, model) {
    const numbers = scene.lines.source.map((_, k) => k);
    Object.assign(this, { scene, texts: railTexts(scene, model), numbers, boxes: [] });
    const arrows =
      "Left and right arrow keys follow edges, up and down go to the neighbour lane, " +
      "Enter selects a node or expands a group, Backspace collapses it.";
    this.element.setAttribute("aria-label", `graph drawing of ${scene.items.length} items. ${arrows}`);
  }

  // The camera moved; a look where that is another as well.
  move(camera, look) {
    this.camera = camera;
    if (look) this.look = look;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(camera.width * ratio), Math.round(camera.height * ratio)];
    if (this.element.width !== width || this.element.height !== height) Object.assign(this.element, { width, height });
    Object.assign(this.element.style, { width: `${camera.width}px`, height: `${camera.height}px` });
    this.draw();
  }

  cursor(at, focus) {
    this.at = at;
    if (focus) this.element.focus({ preventScroll: true });
    this.draw();
  }

  draw() {
    const { camera, scene, look, context } = this;
    if (!camera || !scene || !look) return;
    const ratio = this.element.width / camera.width;
    this.colors = theme(this.element);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.colors.back;
    context.fillRect(0, 0, camera.width, camera.height);
    context.setTransform(ratio * camera.k, 0, 0, ratio * camera.k, ratio * camera.x, ratio * camera.y);
    const window = camera.window();
    const visible = this.itemsIn(window);
    this.drawBands(window);
    this.drawFrames(window);
    this.drawLines(window);
    this.drawStems(visible);
    this.drawBoxes(visible);
    if (camera.k >= TEXT_FROM) this.drawTexts(visible);
    this.drawRings(visible);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawRail();
  }

  itemsIn({ left, right, top, bottom }) {
    const { scene } = this;
    const [first, end] = columnsIn(scene, left, right + REACH);
    const visible = [];
    for (let column = first; column < end; column++) {
      for (const at of scene.columns.members[column]) {
        const item = scene.items[at];
        if (item.stem || (item.y <= bottom && item.y + item.h >= top)) visible.push(at);
      }
    }
    return visible;
  }

  // Of an item, worked out when it is first seen.
  box(at) {
    const item = this.scene.items[at];
    return (this.boxes[at] ??= { item, ...boxShapes(item) });
  }

  drawBands({ left, right }) {
    const { context } = this;
    for (const { y, height, alpha, across } of bandShapes(this.scene)) {
      Object.assign(context, { fillStyle: across ? ROLES.collective : this.colors.line, globalAlpha: alpha });
      context.fillRect(left, y, right - left, height);
    }
    context.globalAlpha = 1;
  }

  drawFrames({ left, right }) {
    const { context, camera, colors } = this;
    const frames = this.scene.frames.filter(({ x, w }) => x < right && x + w > left).map(frameShapes);
    Object.assign(context, { strokeStyle: colors.faint, fillStyle: colors.back, lineWidth: WIDTHS.frame });
    context.globalAlpha = ALPHA.frame;
    context.beginPath();
    for (const { border } of frames) context.rect(border.x, border.y, border.w, border.h);
    context.stroke();
    for (const { tag } of frames) context.fillRect(tag.x, tag.y, tag.w, tag.h);
    context.globalAlpha = 1;
    if (camera.k < TEXT_FROM) return;
    context.fillStyle = colors.faint;
    for (const { title } of frames) this.text(title);
  }

  drawLines(window) {
    const { look } = this;
    this.strokeLines(this.numbers, window, this.colors.faint, look.near ? "quiet" : "line", (k) => look.shows(k));
    if (look.near) this.strokeLines(look.near, window, this.colors.brand, "near", () => true);
  }

  strokeLines(numbers, { left, right, top, bottom }, color, kind, shown) {
    const { context, camera } = this;
    const { lines } = this.scene;
    const { ends } = lines;
    const width = Math.max(WIDTHS[kind] ?? WIDTHS.line, 0.5 / camera.k);
    Object.assign(context, { strokeStyle: color, globalAlpha: ALPHA[kind], lineWidth: width });
    for (const order of [0, 1]) {
      context.setLineDash(order ? DASHES : []);
      context.beginPath();
      for (const k of numbers) {
        if (lines.order[k] !== order || !shown(k)) continue;
        if (Math.min(ends[4 * k], ends[4 * k + 2]) > right || Math.max(ends[4 * k], ends[4 * k + 2]) < left) continue;
        if (Math.min(ends[4 * k + 1], ends[4 * k + 3]) > bottom || Math.max(ends[4 * k + 1], ends[4 * k + 3]) < top)
          continue;
        const [x0, y0, a, b, c, d, x1, y1] = lineShape(lines, k).curve;
        context.moveTo(x0, y0);
        if (camera.k < 0.2) context.lineTo(x1, y1);
        else context.bezierCurveTo(a, b, c, d, x1, y1);
      }
      context.stroke();
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  drawStems(visible) {
    const { context, scene } = this;
    for (const item of visible.map((at) => scene.items[at])) {
      if (!item.stem) continue;
      const { width, lines, marks } = stemShapes(item);
      const color = roleColor(item);
      Object.assign(context, { strokeStyle: color, fillStyle: color, lineWidth: Math.max(width, 1.5 / this.camera.k) });
      context.beginPath();
      for (const [x0, y0, x1, y1] of lines) {
        context.moveTo(x0, y0);
        context.lineTo(x1, y1);
      }
      context.stroke();
      for (const mark of marks) this.mark(mark);
    }
  }

  // A mark or a text, `x` and `y` away from its place.
  mark({ name, x, y, scale }, dx = 0, dy = 0) {
    const { context } = this;
    context.save();
    context.translate(x + dx, y + dy);
    context.scale(scale, scale);
    context.fill(this.marks[name]);
    context.restore();
  }

  text({ font, x, y, text }, dx = 0, dy = 0) {
    const { size, weight } = FONTS[font];
    this.context.font = `${weight} ${size}px ${FACE}`;
    this.context.fillText(text, x + dx, y + dy);
  }

  drawBoxes(visible) {
    const { context, scene, look, colors } = this;
    const byFill = new Map();
    for (const at of visible) {
      const item = scene.items[at];
      const alpha = look.dim(at) ? ALPHA.dim : 1;
      const fill = look.warm(at)?.fill ?? `color-mix(in srgb, ${roleColor(item)} 16%, ${colors.back})`;
      const key = `${alpha} ${roleColor(item)} ${fill}`;
      if (!byFill.has(key)) byFill.set(key, { fill, role: roleColor(item), alpha, boxes: [] });
      byFill.get(key).boxes.push(this.box(at));
    }
    for (const { fill, role, alpha, boxes } of byFill.values()) {
      context.globalAlpha = alpha;
      this.fillBoxes(boxes, fill, role);
    }
    context.globalAlpha = 1;
  }

  fillBoxes(boxes, fill, role) {
    const { context, camera } = this;
    Object.assign(context, { fillStyle: fill, strokeStyle: role, lineWidth: WIDTHS.box });
    for (const shift of [...BEHIND, 0]) {
      context.beginPath();
      for (const { item, backs } of boxes)
        if (!shift || backs.includes(shift)) context.rect(item.x + shift, item.y + shift, item.w, item.h);
      context.fill();
      if (camera.k > 0.15) context.stroke();
    }
    context.fillStyle = role;
    for (const { item, strip } of boxes)
      context.fillRect(item.x, item.y, Math.min(item.w, Math.max(strip, 2 / camera.k)), item.h);
  }

  // Texts of one font together: to change the font costs more than a text.
  drawTexts(visible) {
    const { context, look, colors } = this;
    const boxes = visible.map((at) => ({ ...this.box(at), at, warm: look.warm(at) }));
    const each = (put) => {
      for (const box of boxes) {
        context.globalAlpha = look.dim(box.at) ? ALPHA.dim : 1;
        put(box, box.item.x, box.item.y);
      }
    };
    each(({ item, mark }, x, y) => {
      context.fillStyle = roleColor(item);
      this.mark(mark, x, y);
    });
    for (const part of ["title", "plus"]) {
      each((box, x, y) => {
        context.fillStyle = box.warm?.ink ?? colors.text;
        if (box[part]) this.text(box[part], x, y);
      });
    }
    each(({ item, warm }, x, y) => {
      context.fillStyle = warm?.ink ?? colors.faint;
      this.text(detailShape(item, warm), x, y);
    });
    context.globalAlpha = 1;
  }

  // Rings around hits, the cursor and the selection.
  drawRings(visible) {
    const { context, scene, look, colors, camera } = this;
    const ring = (at, color, width, gap) => {
      const item = scene.items[at];
      if (!item) return;
      Object.assign(context, { strokeStyle: color, lineWidth: width / Math.min(1, camera.k) });
      context.strokeRect(item.x - gap, item.y - gap, item.w + 2 * gap, item.h + 2 * gap);
    };
    if (look.hits) for (const at of visible) if (look.hits.has(at)) ring(at, colors.text, 1.2, 1);
    if (look.hot >= 0) ring(look.hot, colors.text, 3, 2);
    if (look.selected >= 0) ring(look.selected, colors.brand, 3, 2);
    if (this.at >= 0 && document.activeElement === this.element) ring(this.at, colors.brand, 1.5, 5);
  }

  drawRail() {
    const { context, camera, colors } = this;
    context.fillStyle = colors.back;
    context.globalAlpha = 0.88;
    context.fillRect(0, 0, RAIL - 2, camera.height);
    context.globalAlpha = 1;
    for (const text of this.texts) {
      const y = railPlace(text, camera);
      if (y === null) continue;
      context.fillStyle = text.strong ? colors.text : colors.faint;
      context.font = text.strong ? "600 11px system-ui, sans-serif" : "10px system-ui, sans-serif";
      context.fillText(railText(text), 6, y);
    }
  }
}
