// The drawing on its stage: scene, camera and look, as SVG or on a canvas, and what pointer and keys do to them.
import { HEAT, theme } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { Camera } from "./camera.js";
import { CanvasDrawing } from "./canvas.js";
import { hit, neighbour } from "./find.js";
import { listen } from "./inputs.js";
import { layout } from "./layout.js";
import { scaledFor } from "./heat.js";
import { describeItem, Look } from "./look.js";
import { Overview } from "./overview.js";
import { Overlay } from "./overlay.js";
import { railWords } from "./rail.js";
import { SvgDrawing } from "./svg.js";

const SVG_ITEMS = 500; // above that elements are too slow
const SVG_LINES = 2500;
const [LEAST_HEIGHT, MOST_HEIGHT] = [160, 520];

// `select(node or null)` is called for what the user chose; `changed()` when the groups that are open changed.
export class View {
  constructor({ select, changed }) {
    Object.assign(this, {
      select,
      changed,
      open: new Set(),
      all: false,
      heat: null,
      search: null,
      selected: null,
      hover: -1,
      cursor: 0,
    });
    this.camera = new Camera();
    this.overlay = new Overlay();
    this.said = h("div", { class: "wb-sr", "aria-live": "polite" });
    this.stage = h("div", { class: "wb-g-stage" });
    this.overview = new Overview((x, y) => {
      this.camera.centre(x, y);
      this.move();
    });
    this.element = h("div", { class: "wb-g-pane" }, this.stage, this.overview.element);
    this.drawings = { svg: new SvgDrawing(), canvas: new CanvasDrawing() };
    this.use(this.drawings.svg);
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(this.stage);
    listen(this.stage, this.acts());
    this.stage.addEventListener("focusin", (event) => this.focused(event.target));
  }

  close() {
    this.watch.disconnect();
    this.overlay.close();
    cancelAnimationFrame(this.frame);
  }

  use(drawing) {
    if (this.drawing === drawing) return;
    this.drawing = drawing;
    this.stage.replaceChildren(drawing.element, this.overlay.element, this.said);
  }

  // A graph of the shape that is shown already keeps its open groups and its place.
  load(model, folds, keep) {
    Object.assign(this, { model, folds, hover: -1, selected: null });
    if (!keep) Object.assign(this, { open: folds.begin(), cursor: 0 });
    this.build();
    if (keep) return;
    this.fitted = false;
    this.resized();
  }

  build() {
    const held = this.stage.contains(document.activeElement);
    this.scene = layout(this.model, this.folds, this.open);
    this.camera.scene = this.scene;
    this.overview.show(this.scene);
    this.cursor = Math.min(this.cursor, Math.max(0, this.scene.items.length - 1));
    const small = this.scene.items.length <= SVG_ITEMS && this.scene.lines.source.length <= SVG_LINES;
    this.use(small ? this.drawings.svg : this.drawings.canvas);
    this.drawing.show(this.scene, (at) => describeItem(this.model, this.scene, at), this.model);
    this.drawing.cursor(this.cursor, held);
    this.draw();
    this.changed();
  }

  resized() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !this.scene) return;
    this.camera.size(width, height);
    if (!this.fitted) this.begin();
    this.draw();
  }

  // The stage is as high as the graph needs at the scale at which it is first shown.
  begin() {
    this.fitted = true;
    this.camera.size(this.camera.width, 10_000);
    this.camera.fit(this.scene);
    this.setHeight(Math.max(LEAST_HEIGHT, this.wanted()));
    this.camera.fit(this.scene);
  }

  wanted() {
    return Math.round(Math.min(MOST_HEIGHT, this.scene.height * this.camera.k + 30));
  }

  // The user may have drawn the stage to another height: then that stays.
  grow() {
    if (this.fitted && this.stage.style.height === `${this.height}px` && this.wanted() > this.height)
      this.setHeight(this.wanted());
  }

  setHeight(height) {
    this.height = height;
    this.stage.style.height = `${height}px`;
    this.camera.size(this.camera.width, height);
  }

  // As much as can be read: of a wide graph the part around the cursor, the rest is in the overview.
  fit() {
    const item = this.scene.items[this.cursor];
    this.camera.fit(this.scene);
    this.setHeight(Math.max(LEAST_HEIGHT, this.wanted()));
    this.camera.fit(this.scene);
    if (item && this.cursor > 0) this.camera.show(item);
    this.draw();
  }

  zoom(factor, x, y) {
    this.camera.zoom(factor, x, y);
    this.draw();
  }

  // At the next frame, once.
  draw() {
    this.stale = true;
    this.move();
  }

  move() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.scene) return;
      this.drawing.move(this.camera, this.stale ? this.look() : null);
      this.overview.move(this.camera);
      this.stale = false;
    });
  }

  // The heat with a scale for what is drawn; null where there is none.
  scale() {
    return this.heat && this.scene ? scaledFor(this.heat, this.scene.items) : null;
  }

  look() {
    const { search, hover, all } = this;
    return new Look(this.scene, {
      heat: this.scale(),
      search,
      hover,
      all,
      selected: this.selected ?? -1,
      back: theme(this.stage).back,
    });
  }

  // The opening of groups, with what is under the pointer (a node) staying where it is.
  setOpen(open, anchor = null) {
    const before = anchor === null ? null : this.scene.items[this.scene.itemOf[anchor]];
    const kept = this.scene.items[this.cursor]?.nodes[0] ?? null;
    Object.assign(this, { open, hover: -1 });
    this.build();
    this.grow();
    if (kept !== null) this.moveCursor(this.scene.itemOf[anchor ?? kept], this.stage.contains(document.activeElement));
    if (before) {
      const after = this.scene.items[this.scene.itemOf[anchor]];
      this.camera.pan((before.x - after.x) * this.camera.k, (before.y - after.y) * this.camera.k);
    }
    this.draw();
  }

  toggle(group) {
    const open = new Set(this.open);
    if (open.has(group)) open.delete(group);
    else open.add(group);
    this.setOpen(open, this.folds.groups[group].nodes[0]);
  }

  // Makes a node visible, and seen.
  reveal(node) {
    const hidden = this.folds.above(node).filter((group) => !this.open.has(group));
    if (hidden.length) this.setOpen(new Set([...this.open, ...hidden]), null);
    const at = this.scene.itemOf[node];
    this.moveCursor(at, false);
    if (this.stage.clientWidth) this.camera.show(this.scene.items[at]);
    this.draw();
  }

  choose(node) {
    this.selected = node;
    if (node !== null) this.reveal(node);
    this.draw();
  }

  moveCursor(at, focus) {
    this.cursor = at;
    this.drawing.cursor(at, focus);
  }

  // Outlines of what runs, while a run does.
  replay(sample) {
    if (!sample || !this.model) return this.overlay.stop();
    this.overlay.play(this.model, sample, () => ({ scene: this.scene, camera: this.camera, color: HEAT }));
  }

  acts() {
    return {
      pan: (dx, dy) => {
        this.camera.pan(dx, dy);
        this.move();
      },
      zoom: (factor, x, y) => {
        this.camera.zoom(factor, x, y);
        this.move();
      },
      fit: () => this.fit(),
      click: (x, y) => this.click(this.under(x, y)),
      hover: (x, y) => this.hovers(this.under(x, y), x, y),
      leave: () => this.hovers(null, Infinity, Infinity),
      arrow: (key) => this.arrow(key),
      enter: (event) => this.enter(event.target),
      collapse: () => this.collapse(),
      escape: () => this.select(null),
    };
  }

  under(x, y) {
    return this.scene ? hit(this.scene, this.camera.at(x, y)) : null;
  }

  click(target) {
    this.moveCursor(target?.item ?? this.cursor, true);
    if (!target) return this.select(null);
    if (target.frame) return this.toggle(target.frame.group.index);
    const item = this.scene.items[target.item];
    if (item.group) this.toggle(item.group.index);
    else this.select(item.node);
  }

  hovers(target, x, y) {
    const at = target?.item ?? -1;
    if (at < 0 && this.scene) this.stage.title = railWords(this.scene, this.model, this.camera, x, y);
    this.stage.classList.toggle("wb-g-over", target !== null);
    if (at === this.hover) return;
    this.hover = at;
    if (at >= 0) this.stage.title = describeItem(this.model, this.scene, at);
    this.draw();
  }

  arrow(key) {
    if (!this.scene?.items.length) return;
    const at = neighbour(this.scene, this.cursor, key);
    this.moveCursor(at, true);
    this.camera.show(this.scene.items[at]);
    if (this.drawing === this.drawings.canvas) this.said.textContent = describeItem(this.model, this.scene, at);
    this.hover = at;
    this.draw();
  }

  enter(target) {
    const frame = target.closest?.("[data-close]");
    if (frame) return this.toggle(Number(frame.getAttribute("data-close")));
    const item = this.scene?.items[this.cursor];
    if (!item) return;
    if (item.group) this.toggle(item.group.index);
    else this.select(item.node);
  }

  // Folds the innermost open group around the cursor.
  collapse() {
    const item = this.scene?.items[this.cursor];
    if (!item) return;
    const around = item.group ? item.group.parent : this.folds.parent[item.node];
    if (around >= 0) this.toggle(around);
  }

  focused(target) {
    const element = target.closest?.("[data-node], [data-group]");
    if (!element) return;
    const at = this.drawings.svg.items.findIndex((item) => item.element === element);
    if (at >= 0) this.cursor = at;
  }
}
