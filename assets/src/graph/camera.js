// Which part of the scene is seen: screen = scene × k + (x, y). To the left is the rail with the lanes' names.

export const RAIL = 84; // pixels
const LEGIBLE = 0.72; // the smallest scale at which a graph is first shown: boxes can be read
const LARGEST_START = 1.15;
const LEAST = 0.01;
const MOST = 4;
const MARGIN = 12;

export class Camera {
  constructor() {
    Object.assign(this, { x: RAIL, y: MARGIN, k: 1, width: 600, height: 400, scene: { width: 0, height: 0 } });
  }

  size(width, height) {
    Object.assign(this, { width, height });
  }

  // The whole scene, if it can be read then: else its beginning.
  fit(scene = this.scene) {
    this.scene = scene;
    const room = [this.width - RAIL - MARGIN, this.height - 2 * MARGIN];
    const k = Math.min(room[0] / Math.max(1, scene.width), room[1] / Math.max(1, scene.height));
    this.k = Math.min(LARGEST_START, Math.max(LEGIBLE, k));
    this.x = RAIL;
    this.y = Math.max(MARGIN, (this.height - scene.height * this.k) / 2);
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.hold();
  }

  // Bigger by a factor; the point under (px, py) stays where it is.
  zoom(factor, px = (this.width + RAIL) / 2, py = this.height / 2) {
    const k = Math.min(MOST, Math.max(LEAST, this.k * factor));
    this.x = px - ((px - this.x) * k) / this.k;
    this.y = py - ((py - this.y) * k) / this.k;
    this.k = k;
    this.hold();
  }

  // Keeps a part of the scene in sight.
  hold() {
    const keep = 80;
    const clamp = (value, low, high) => Math.min(Math.max(value, Math.min(low, high)), Math.max(low, high));
    this.x = clamp(this.x, RAIL + keep - this.scene.width * this.k, this.width - keep);
    this.y = clamp(this.y, keep / 2 - this.scene.height * this.k, this.height - keep / 2);
  }

  // Brings a box into sight, to the middle of the way it was out of it; small ones are made legible.
  show({ x, y, w, h }) {
    if (this.k < LEGIBLE) this.zoom(LEGIBLE / this.k);
    const [left, top] = [x * this.k + this.x, y * this.k + this.y];
    if (left < RAIL + MARGIN || left + w * this.k > this.width - MARGIN)
      this.x = (this.width + RAIL) / 2 - (x + w / 2) * this.k;
    if (top < MARGIN || top + h * this.k > this.height - MARGIN) this.y = this.height / 2 - (y + h / 2) * this.k;
    this.hold();
  }

  // Brings a point of the scene to the middle, as far as something lies beside it.
  centre(x, y) {
    const [wide, high] = [this.scene.width * this.k > this.width - RAIL, this.scene.height * this.k > this.height];
    if (wide) this.x = (this.width + RAIL) / 2 - x * this.k;
    if (high) this.y = this.height / 2 - y * this.k;
    this.hold();
  }

  at(px, py) {
    return { x: (px - this.x) / this.k, y: (py - this.y) / this.k };
  }

  // What is seen, in scene coordinates.
  window() {
    const [from, to] = [this.at(0, 0), this.at(this.width, this.height)];
    return { left: from.x, top: from.y, right: to.x, bottom: to.y };
  }
}
