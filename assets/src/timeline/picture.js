// The timeline's canvas and what hands do with it: wheel, drag, double click, keys.
import { h } from "../draw/dom.js";
import { AXIS_PX, gutterOf, paint } from "./paint.js";
import { inkOf } from "./ink.js";
import { heightOf, locate, neighbour, rowTop, spanAt } from "./lanes.js";
import { tooltip } from "./tooltip.js";
import { scale, View } from "./view.js";
import { details, gist, spoken } from "./words.js";

const TALLEST_PX = 440;
const NEAR_PX = 3;
const DRAG_PX = 4;
const STEP = 1.4; // zoom of one press
const WALKS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

export class Picture {
  // `choose(span)` is called when one is clicked.
  constructor(choose) {
    this.choose = choose;
    this.view = new View();
    Object.assign(this, { spans: null, lanes: [], chosen: new Set(), cursor: -1, hover: -1, slowest: -1 });
    Object.assign(this, { frame: 0, drag: null });
    this.canvas = h("canvas", { class: "wb-timeline-canvas", role: "application", tabindex: 0 });
    this.tall = h("div", { class: "wb-timeline-tall" }, this.canvas);
    this.scroller = h("div", { class: "wb-timeline-scroll", onscroll: () => this.later() }, this.tall);
    this.live = h("div", { class: "wb-hidden", "aria-live": "polite" });
    this.tip = tooltip();
    this.element = h("div", { class: "wb-timeline-picture" }, this.scroller, this.tip.element, this.live);
    this.listen();
  }

  listen() {
    const on = (kind, act, options) => this.canvas.addEventListener(kind, (event) => act.call(this, event), options);
    on("wheel", this.wheel, { passive: false });
    on("pointerdown", this.press);
    on("pointermove", this.move);
    on("pointerup", this.release);
    on("pointercancel", () => (this.drag = null));
    on("pointerleave", () => this.point(-1));
    on("dblclick", this.enlarge);
    on("keydown", this.key);
    on("blur", () => this.live.replaceChildren());
  }

  destroy() {
    cancelAnimationFrame(this.frame);
  }

  // Another step, or the same with another graph. What was zoomed to, and the current span's node, stay.
  show(spans, lanes) {
    const node = this.cursor >= 0 ? this.spans.nodes(this.cursor)[0] : null;
    Object.assign(this, { spans, lanes, hover: -1, slowest: spans.slowest() });
    this.cursor = spans.of(node)[0] ?? -1;
    this.view.resize(spans.duration);
    this.tip.hide();
    this.canvas.setAttribute("aria-label", gist(spans, lanes));
    this.later();
  }

  // The spans of the selected node; `reveal` brings the first into sight.
  highlight(chosen, reveal) {
    this.chosen = new Set(chosen);
    if (reveal && chosen.length) this.reveal(chosen[0]);
    this.later();
  }

  reveal(span) {
    const here = locate(this.lanes, span);
    this.view.reveal(this.spans.start[span], this.spans.end[span]);
    const top = rowTop(this.lanes[here.lane], here.row);
    const room = this.scroller.clientHeight - AXIS_PX;
    const { scrollTop } = this.scroller;
    if (top < scrollTop || top + 30 > scrollTop + room) this.scroller.scrollTop = top - room / 2;
  }

  zoom(factor, at) {
    this.view.zoom(factor, at);
    this.later();
  }

  whole() {
    this.view.whole();
    this.later();
  }

  // A span with a little around it.
  zoomTo(span) {
    const room = Math.max(this.spans.lasts(span), 0.1);
    this.view.show(this.spans.start[span] - room * 0.3, this.spans.end[span] + room * 0.3);
    this.reveal(span);
    this.later();
  }

  later() {
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.frame = 0;
    const width = this.scroller.clientWidth;
    if (!this.spans || !width) return;
    const whole = heightOf(this.lanes) + AXIS_PX;
    const height = Math.min(whole, TALLEST_PX);
    this.tall.style.height = `${whole}px`;
    this.context = prepared(this.canvas, width, height);
    this.ink = inkOf(this.canvas, this.context, devicePixelRatio);
    paint(this.context, this.scene(width, height, this.scroller.scrollTop));
  }

  scene(width, height, scroll) {
    const { spans, lanes, view, ink, chosen, cursor, hover, slowest } = this;
    return { spans, lanes, view, ink, chosen, cursor, hover, slowest, width, height, scroll };
  }

  // All lanes on a canvas of its own, to be saved.
  drawing() {
    const canvas = document.createElement("canvas");
    const width = this.scroller.clientWidth;
    const height = heightOf(this.lanes) + AXIS_PX;
    const context = prepared(canvas, width, height);
    paint(context, this.scene(width, height, 0));
    context.globalCompositeOperation = "destination-over";
    context.fillStyle = this.ink.back;
    context.fillRect(0, 0, width, height);
    return canvas;
  }

  scale() {
    const width = this.scroller.clientWidth;
    const left = gutterOf(this.context, { lanes: this.lanes, ink: this.ink, width });
    return { left, ...scale(this.view, left, width - left) };
  }

  spanAt({ offsetX, offsetY }) {
    if (!this.context || offsetY < AXIS_PX) return -1;
    const { left, time, perPixel } = this.scale();
    if (offsetX < left) return -1;
    return spanAt(
      this.lanes,
      this.spans,
      offsetY - AXIS_PX + this.scroller.scrollTop,
      time(offsetX),
      NEAR_PX * perPixel,
    );
  }

  // Without the focus the wheel belongs to the page, unless Ctrl or Cmd is held.
  wheel(event) {
    if (!(event.ctrlKey || event.metaKey || document.activeElement === this.canvas) || !this.context) return;
    event.preventDefault();
    const { time, perPixel } = this.scale();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.view.pan((event.deltaX || event.deltaY) * perPixel);
    else this.view.zoom(Math.exp(event.deltaY * 0.002), time(event.offsetX));
    this.later();
  }

  press(event) {
    if (event.button) return;
    this.drag = { x: event.clientX, y: event.clientY, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.drag) return this.point(this.spanAt(event), event);
    const [right, down] = [event.clientX - this.drag.x, event.clientY - this.drag.y];
    if (!this.drag.moved && Math.hypot(right, down) < DRAG_PX) return;
    this.point(-1);
    this.view.pan(-right * this.scale().perPixel);
    this.scroller.scrollTop -= down;
    this.drag = { x: event.clientX, y: event.clientY, moved: true };
    this.later();
  }

  release(event) {
    const moved = this.drag?.moved;
    this.drag = null;
    const span = moved || event.button ? -1 : this.spanAt(event);
    if (span >= 0) this.take(span);
  }

  enlarge(event) {
    const span = this.spanAt(event);
    span < 0 ? this.whole() : this.zoomTo(span);
  }

  point(span, event) {
    if (span < 0) this.tip.hide();
    else this.tip.show(this.spans.name(span), details(this.spans, span), event, this.element);
    if (span === this.hover) return;
    this.hover = span;
    this.canvas.style.cursor = span < 0 ? "" : "pointer";
    this.later();
  }

  take(span) {
    this.cursor = span;
    this.choose(span);
    this.later();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.spans?.count) return;
    if (!this.act(event.key)) return;
    event.preventDefault();
    this.later();
  }

  act(key) {
    if (key === "+" || key === "=") this.zoom(1 / STEP, this.middle());
    else if (key === "-") this.zoom(STEP, this.middle());
    else if (key === "0") this.whole();
    else if (key === "Escape") this.cursor = -1;
    else if (key === "Enter" && this.cursor >= 0) this.choose(this.cursor);
    else if (WALKS.includes(key)) this.walk(key);
    else return false;
    return true;
  }

  walk(key) {
    this.cursor = neighbour(this.lanes, this.spans, this.cursor, key);
    this.reveal(this.cursor);
    this.live.textContent = spoken(this.spans, this.lanes, this.cursor);
  }

  // Keys zoom around the current span.
  middle() {
    return this.cursor < 0 ? undefined : (this.spans.start[this.cursor] + this.spans.end[this.cursor]) / 2;
  }
}

function prepared(canvas, width, height) {
  const ratio = devicePixelRatio;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across) canvas.width = across;
  if (canvas.height !== down) canvas.height = down;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
