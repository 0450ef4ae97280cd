// The timeline's canvas and what hands do with it: wheel, drag, double click, keys.
import { h } from "../draw/dom.js";
import { AXIS_PX, gutterOf, paint } from "./paint.js";
import { inkOf } from "./ink.js";
import { heightOf, neighbour, placeAt, placesOf, rowTop, spanOf } from "./lanes.js";
import { tooltip } from "./tooltip.js";
import { scale, View } from "./view.js";
import { details, gist, spoken } from "./words.js";

const TALLEST_PX = 440;
const NEAR_PX = 3;
const DRAG_PX = 4;
const STEP = 1.4; // zoom of one press
const WALKS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];

export class Picture {
  // `choose(span, device)` is called when one is clicked in the lane of a device, -1 for collectives.
  constructor(choose) {
    this.choose = choose;
    this.view = new View();
    Object.assign(this, { spans: null, lanes: [], chosen: [] });
    Object.assign(this, { cursor: null, hover: null, longest: null }); // places
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
    on("pointerleave", () => this.point(null));
    on("dblclick", this.enlarge);
    on("keydown", this.key);
    on("blur", () => this.live.replaceChildren());
  }

  destroy() {
    cancelAnimationFrame(this.frame);
  }

  // Another step, or the same with another graph. What was zoomed to, and the current span's node, stay.
  show(spans, lanes) {
    const node = this.cursor ? this.spans.nodes(...this.at(this.cursor))[0] : null;
    const longest = spans.longest();
    Object.assign(this, { spans, lanes, hover: null, chosen: [] });
    this.cursor = this.placesOfNode(node)[0] ?? null;
    this.longest = longest < 0 ? null : placesOf(lanes, longest)[0];
    this.view.resize(spans.duration);
    this.tip.hide();
    this.canvas.setAttribute("aria-label", gist(spans, lanes));
    this.later();
  }

  // [span, device] of a place.
  at(place) {
    return [spanOf(this.lanes, place), this.lanes[place.lane].device];
  }

  placesOfNode(node) {
    const device = this.spans.graph?.node.device?.[node];
    return this.spans.of(node).flatMap((span) => placesOf(this.lanes, span, device));
  }

  // The selected node; `reveal` brings its first span into sight.
  highlight(node, reveal) {
    this.chosen = this.placesOfNode(node);
    if (reveal && this.chosen.length) this.reveal(this.chosen[0]);
    this.later();
  }

  reveal(place) {
    const span = spanOf(this.lanes, place);
    this.view.reveal(this.spans.start[span], this.spans.end[span]);
    const top = rowTop(this.lanes[place.lane], place.row);
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
  zoomTo(place) {
    const span = spanOf(this.lanes, place);
    const room = Math.max(this.spans.lasts(span), 0.1);
    this.view.show(this.spans.start[span] - room * 0.3, this.spans.end[span] + room * 0.3);
    this.reveal(place);
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
    const { spans, lanes, view, ink, chosen, hover, longest } = this;
    const known = chosen.some(({ lane, row, position }) => {
      return lane === this.cursor?.lane && row === this.cursor.row && position === this.cursor.position;
    });
    return {
      spans,
      lanes,
      view,
      ink,
      chosen,
      cursor: known ? null : this.cursor,
      hover,
      longest,
      width,
      height,
      scroll,
    };
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

  placeAt({ offsetX, offsetY }) {
    if (!this.context || offsetY < AXIS_PX) return null;
    const { left, time, perPixel } = this.scale();
    if (offsetX < left) return null;
    return placeAt(
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
    if (!this.drag) return this.point(this.placeAt(event), event);
    const [right, down] = [event.clientX - this.drag.x, event.clientY - this.drag.y];
    if (!this.drag.moved && Math.hypot(right, down) < DRAG_PX) return;
    this.point(null);
    this.view.pan(-right * this.scale().perPixel);
    this.scroller.scrollTop -= down;
    this.drag = { x: event.clientX, y: event.clientY, moved: true };
    this.later();
  }

  release(event) {
    const moved = this.drag?.moved;
    this.drag = null;
    const place = moved || event.button ? null : this.placeAt(event);
    if (place) this.take(place);
  }

  enlarge(event) {
    const place = this.placeAt(event);
    if (place) this.zoomTo(place);
    else this.whole();
  }

  point(place, event) {
    if (place) this.explain(place, event);
    else this.tip.hide();
    if (place?.lane === this.hover?.lane && place?.row === this.hover?.row && place?.position === this.hover?.position)
      return;
    this.hover = place;
    this.canvas.style.cursor = place ? "pointer" : "";
    this.later();
  }

  explain(place, event) {
    const [span, device] = this.at(place);
    const longest = this.longest && spanOf(this.lanes, this.longest) === span;
    const lines = [...details(this.spans, span, device), ...(longest ? [["mark", "longest op of this step"]] : [])];
    this.tip.show(this.spans.name(span, device), lines, event, this.element);
  }

  take(place) {
    this.cursor = place;
    this.choose(...this.at(place));
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
    else if (key === "Escape") this.cursor = null;
    else if (key === "Enter" && this.cursor) this.choose(...this.at(this.cursor));
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
    if (!this.cursor) return undefined;
    const span = spanOf(this.lanes, this.cursor);
    return (this.spans.start[span] + this.spans.end[span]) / 2;
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
