// The last step that was looked at, shown slowly over the drawing while a run is running: outlines of what ran.
import { h } from "../draw/dom.js";
import { Replay } from "./times.js";

const LENGTH_MS = 2000;
const FRAME_MS = 66;

export class Overlay {
  constructor() {
    this.element = h("canvas", { class: "wb-g-overlay", "aria-hidden": "true" });
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.inSight = true;
    this.watch = new IntersectionObserver(([entry]) => {
      this.inSight = entry.isIntersecting;
    });
    this.watch.observe(this.element);
    this.frame = 0;
  }

  // `source` gives {scene, camera, color} as they are now.
  play(model, sample, source) {
    if (this.still.matches || !sample || sample.graph !== model.message.id) return this.stop();
    if (this.sample !== sample) Object.assign(this, { sample, replay: new Replay(model, sample) });
    this.source = source;
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.element.getContext("2d").clearRect(0, 0, this.element.width, this.element.height);
  }

  close() {
    this.stop();
    this.watch.disconnect();
  }

  tick(now) {
    this.frame = requestAnimationFrame((next) => this.tick(next));
    if (!this.inSight || now - (this.last ?? 0) < FRAME_MS) return;
    this.last = now;
    this.draw(this.replay.running((now % LENGTH_MS) / LENGTH_MS));
  }

  draw(nodes) {
    const { scene, camera, color } = this.source();
    const [width, height] = [Math.round(camera.width), Math.round(camera.height)];
    if (this.element.width !== width || this.element.height !== height) Object.assign(this.element, { width, height });
    const context = this.element.getContext("2d");
    context.clearRect(0, 0, width, height);
    Object.assign(context, { strokeStyle: color, lineWidth: 3 });
    for (const at of new Set(nodes.map((n) => scene.itemOf[n]))) {
      const item = scene.items[at];
      if (!item) continue;
      const [x, y] = [item.x * camera.k + camera.x, item.y * camera.k + camera.y];
      if (x < width && x + item.w * camera.k > 0)
        context.strokeRect(x - 2, y - 2, item.w * camera.k + 4, item.h * camera.k + 4);
    }
  }
}
