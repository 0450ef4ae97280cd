// The scene on a canvas, for graphs too large for SVG: only what is seen is drawn, boxes of one colour together.
import { ROLES, theme } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { BOX } from "./bands.js";
import { RAIL } from "./camera.js";
import { columnsIn } from "./find.js";
import { kindName, roleColor } from "./look.js";
import { COLLECTIVE } from "./model.js";
import { curve, MARKS, shortened } from "./marks.js";
import { railPlace, railText, railTexts } from "./rail.js";

const TEXT_FROM = 0.45; // scale
const REACH = 60; // scene units that stems are before their column

export class CanvasDrawing {
  constructor() {
    this.element = h("canvas", { class: "wb-g-canvas", tabindex: 0, role: "application" });
    this.context = this.element.getContext("2d");
    this.marks = Object.fromEntries(Object.entries(MARKS).map(([name, path]) => [name, new Path2D(path)]));
  }

  show(scene, labels, model) {
    Object.assign(this, { scene, texts: railTexts(scene, model), numbers: scene.lines.source.map((_, k) => k) });
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
    const seen = this.seen(window);
    this.drawBands(window);
    this.drawFrames(window);
    this.drawLines(window);
    this.drawStems(seen);
    this.drawBoxes(seen);
    if (camera.k >= TEXT_FROM) this.drawTexts(seen);
    this.drawRings(seen);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawRail();
  }

  seen({ left, right, top, bottom }) {
    const { scene } = this;
    const [first, end] = columnsIn(scene, left, right + REACH);
    const found = [];
    for (let column = first; column < end; column++) {
      for (const at of scene.columns.members[column]) {
        const item = scene.items[at];
        if (item.stem || (item.y <= bottom && item.y + item.h >= top)) found.push(at);
      }
    }
    return found;
  }

  drawBands({ left, right }) {
    const { context } = this;
    context.fillStyle = this.colors.line;
    context.globalAlpha = 0.22;
    for (const { y, height } of this.scene.devices) context.fillRect(left, y, right - left, height);
    const across = this.scene.lanes[this.scene.shared];
    Object.assign(context, { fillStyle: ROLES.collective, globalAlpha: 0.09 });
    if (across.rows) context.fillRect(left, across.top, right - left, across.height);
    context.globalAlpha = 1;
  }

  drawFrames({ left, right }) {
    const { context, camera } = this;
    context.strokeStyle = this.colors.faint;
    context.lineWidth = 0.8;
    context.font = "9.5px system-ui, sans-serif";
    context.globalAlpha = 0.6;
    const frames = this.scene.frames.filter(({ x, w }) => x < right && x + w > left);
    context.beginPath();
    for (const { x, y, w, h: height } of frames) context.rect(x, y, w, height);
    context.stroke();
    context.globalAlpha = 1;
    if (camera.k < TEXT_FROM) return;
    context.fillStyle = this.colors.faint;
    for (const { tag, group } of frames)
      context.fillText(`− ${shortened(group.title, tag.w - 18, 5.6)}`, tag.x + 5, tag.y + 10);
  }

  drawLines(window) {
    const { look } = this;
    const quiet = look.near ? 0.25 : 0.7;
    this.strokeLines(this.numbers, window, this.colors.faint, quiet, 0.8, (k) => look.shows(k));
    if (look.near) this.strokeLines(look.near, window, this.colors.brand, 1, 1.8, () => true);
  }

  strokeLines(numbers, { left, right, top, bottom }, color, alpha, width, shown) {
    const { context, camera } = this;
    const { lines } = this.scene;
    const { ends } = lines;
    Object.assign(context, { strokeStyle: color, globalAlpha: alpha, lineWidth: Math.max(width, 0.5 / camera.k) });
    for (const order of [0, 1]) {
      context.setLineDash(order ? [4, 3] : []);
      context.beginPath();
      for (const k of numbers) {
        if (lines.order[k] !== order || !shown(k)) continue;
        if (Math.min(ends[4 * k], ends[4 * k + 2]) > right || Math.max(ends[4 * k], ends[4 * k + 2]) < left) continue;
        if (Math.min(ends[4 * k + 1], ends[4 * k + 3]) > bottom || Math.max(ends[4 * k + 1], ends[4 * k + 3]) < top)
          continue;
        const [x0, y0, a, b, c, d, x1, y1] = curve(lines, k);
        context.moveTo(x0, y0);
        if (camera.k < 0.2) context.lineTo(x1, y1);
        else context.bezierCurveTo(a, b, c, d, x1, y1);
      }
      context.stroke();
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  drawStems(seen) {
    const { context, scene } = this;
    for (const item of seen.map((at) => scene.items[at])) {
      if (!item.stem) continue;
      const { x, top, bottom, marks } = item.stem;
      const middle = item.y + BOX / 2;
      Object.assign(context, {
        strokeStyle: roleColor(item),
        fillStyle: roleColor(item),
        lineWidth: Math.max(item.kind === COLLECTIVE ? 3 : 1.4, 1.5 / this.camera.k),
      });
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, bottom);
      context.moveTo(x, middle);
      context.lineTo(item.x, middle);
      context.stroke();
      for (const { y } of marks) this.mark(kindName(item), x - 5, y - 5, 1);
    }
  }

  mark(name, x, y, scale) {
    const { context } = this;
    context.save();
    context.translate(x, y);
    context.scale(scale, scale);
    context.fill(this.marks[name]);
    context.restore();
  }

  drawBoxes(seen) {
    const { context, scene, look, colors } = this;
    const byFill = new Map();
    for (const at of seen) {
      const item = scene.items[at];
      const fill = look.warm(at)?.fill ?? `color-mix(in srgb, ${roleColor(item)} 16%, ${colors.back})`;
      const key = `${look.dim(at) ? 0.25 : 1} ${roleColor(item)} ${fill}`;
      if (!byFill.has(key)) byFill.set(key, { fill, role: roleColor(item), alpha: look.dim(at) ? 0.25 : 1, items: [] });
      byFill.get(key).items.push(item);
    }
    for (const { fill, role, alpha, items } of byFill.values()) {
      context.globalAlpha = alpha;
      this.fillBoxes(items, fill, role);
    }
    context.globalAlpha = 1;
  }

  fillBoxes(items, fill, role) {
    const { context, camera } = this;
    Object.assign(context, { fillStyle: fill, strokeStyle: role, lineWidth: 1 });
    for (const shift of [6, 3, 0]) {
      context.beginPath();
      for (const { x, y, w, h: height, group } of items)
        if (!shift || group) context.rect(x + shift, y + shift, w, height);
      context.fill();
      if (camera.k > 0.15) context.stroke();
    }
    context.fillStyle = role;
    const strip = Math.max(4, 2 / camera.k);
    for (const { x, y, w, h: height } of items) context.fillRect(x, y, Math.min(w, strip), height);
  }

  // Titles first, then details: to change the font costs more than a text.
  drawTexts(seen) {
    const { context, scene, look, colors } = this;
    for (const small of [false, true]) {
      context.font = small ? "9.5px system-ui, sans-serif" : "500 11px system-ui, sans-serif";
      for (const at of seen) {
        const warm = look.warm(at);
        context.globalAlpha = look.dim(at) ? 0.3 : 1;
        const ink = warm ? warm.ink : small ? colors.faint : colors.text;
        if (small) this.drawDetail(scene.items[at], warm, ink);
        else this.drawTitle(scene.items[at], ink);
      }
    }
    context.globalAlpha = 1;
  }

  drawTitle(item, ink) {
    const { context } = this;
    context.fillStyle = roleColor(item);
    this.mark(kindName(item), item.x + 8, item.y + 6, 0.85);
    context.fillStyle = ink;
    context.fillText(shortened(item.title, item.w - (item.group ? 40 : 26), 6.6), item.x + 20, item.y + 14);
    if (item.group) context.fillText("+", item.x + item.w - 13, item.y + 15);
  }

  drawDetail({ detail, x, y, w }, warm, ink) {
    this.context.fillStyle = ink;
    this.context.fillText(shortened(warm ? warm.text : detail, w - 26, 5.7), x + 20, y + 26);
  }

  // Rings around hits, the cursor and the selection.
  drawRings(seen) {
    const { context, scene, look, colors, camera } = this;
    const ring = (at, color, width, gap) => {
      const item = scene.items[at];
      if (!item) return;
      Object.assign(context, { strokeStyle: color, lineWidth: width / Math.min(1, camera.k) });
      context.strokeRect(item.x - gap, item.y - gap, item.w + 2 * gap, item.h + 2 * gap);
    };
    if (look.hits) for (const at of seen) if (look.hits.has(at)) ring(at, colors.text, 1.2, 1);
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
