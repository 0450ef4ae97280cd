// A strip with the whole scene, when it is wider than what is seen: where the roles and collectives are. Click to go there.
import { theme } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { RAIL } from "./camera.js";
import { roleColor } from "./look.js";

const HEIGHT = 34;

export class Overview {
  constructor(go) {
    this.element = h("canvas", { class: "wb-g-overview", height: HEIGHT, hidden: true, role: "img", "aria-label": "the whole graph; what is drawn above is framed" });
    this.picture = document.createElement("canvas");
    const to = (event) => {
      if (event.buttons !== 1) return;
      const { left, width } = this.element.getBoundingClientRect();
      go(((event.clientX - left) / width) * this.scene.width);
    };
    this.element.addEventListener("pointerdown", to);
    this.element.addEventListener("pointermove", to);
  }

  show(scene) {
    this.scene = scene;
    this.painted = 0;
  }

  move(camera, changed) {
    const { left, right } = camera.window();
    const from = left + RAIL / camera.k;
    this.element.hidden = from <= 1 && right >= this.scene.width - 1;
    const width = this.element.clientWidth;
    if (this.element.hidden || !width) return;
    if (changed || this.painted !== width) this.paint(width);
    const context = this.element.getContext("2d");
    const scale = width / this.scene.width;
    context.clearRect(0, 0, width, HEIGHT);
    context.drawImage(this.picture, 0, 0);
    Object.assign(context, { strokeStyle: theme(this.element).brand, lineWidth: 2 });
    context.strokeRect(Math.max(1, from * scale), 1, Math.max(4, Math.min(width - 2, (right - from) * scale)), HEIGHT - 2);
  }

  paint(width) {
    const { scene, picture } = this;
    this.painted = width;
    this.element.width = picture.width = width;
    picture.height = HEIGHT;
    const context = picture.getContext("2d");
    const [across, down] = [width / scene.width, (HEIGHT - 6) / Math.max(1, scene.height)];
    for (const { x, y, w, h: height, stem, ...item } of scene.items) {
      context.fillStyle = roleColor(item);
      context.fillRect(x * across, 3 + y * down, Math.max(1, w * across), Math.max(1.5, height * down));
      if (stem) context.fillRect(stem.x * across, 3 + stem.top * down, 1.5, (stem.bottom - stem.top) * down);
    }
  }
}
