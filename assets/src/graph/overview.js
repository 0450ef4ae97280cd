// A strip with the whole scene, when it is larger than what is seen: where roles and collectives are. Click to go there.
import { theme } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { RAIL } from "./camera.js";
import { roleColor } from "./look.js";

const [LEAST, MOST] = [34, 90]; // pixels of height
const PAGE = 0.75; // of what is seen, that an arrow key goes on by

export class Overview {
  constructor(go) {
    this.element = h("canvas", {
      class: "wb-g-overview",
      hidden: true,
      tabindex: 0,
      role: "group",
      "aria-label": "overview of the whole graph; arrow keys move what is drawn above",
      title: "the whole graph; what is drawn above is framed: drag the frame, or use the arrow keys",
    });
    this.height = LEAST;
    this.picture = document.createElement("canvas");
    const to = (event) => {
      if (event.buttons !== 1) return;
      const { left, top, width, height } = this.element.getBoundingClientRect();
      go(((event.clientX - left) / width) * this.scene.width, ((event.clientY - top) / height) * this.scene.height);
    };
    this.element.addEventListener("pointerdown", to);
    this.element.addEventListener("pointermove", to);
    this.element.addEventListener("keydown", (event) => {
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [];
      if (dx === undefined || !this.visible) return;
      event.preventDefault();
      const { x, y, width, height } = this.visible;
      go(x + dx * PAGE * width, y + dy * PAGE * height);
    });
  }

  show(scene) {
    this.scene = scene;
    this.painted = 0;
  }

  move(camera) {
    const { left, top, right, bottom } = camera.window();
    const from = left + RAIL / camera.k;
    this.element.hidden = from <= 1 && right >= this.scene.width - 1 && top <= 1 && bottom >= this.scene.height - 1;
    const width = this.element.clientWidth;
    if (this.element.hidden || !width) return;
    if (this.painted !== width) this.paint(width);
    this.visible = { x: (from + right) / 2, y: (top + bottom) / 2, width: right - from, height: bottom - top };
    const context = this.element.getContext("2d");
    const [across, down] = this.scales(width);
    context.clearRect(0, 0, width, this.height);
    context.drawImage(this.picture, 0, 0);
    Object.assign(context, { strokeStyle: theme(this.element).brand, lineWidth: 2 });
    const [x, y] = [Math.max(1, from * across), Math.max(1, 3 + top * down)];
    const [end, low] = [Math.min(width - 1, right * across), Math.min(this.height - 1, 3 + bottom * down)];
    context.strokeRect(x, y, Math.max(4, end - x), Math.max(4, low - y));
  }

  scales(width) {
    return [width / Math.max(1, this.scene.width), (this.height - 6) / Math.max(1, this.scene.height)];
  }

  paint(width) {
    const { scene, picture } = this;
    this.painted = width;
    this.element.width = picture.width = width;
    this.height = Math.round(Math.min(MOST, Math.max(LEAST, (width * scene.height) / Math.max(1, scene.width))));
    this.element.height = picture.height = this.height;
    this.element.style.height = `${this.height}px`;
    const context = picture.getContext("2d");
    const [across, down] = this.scales(width);
    let kind = -1;
    for (const item of scene.items) {
      if (item.kind !== kind) context.fillStyle = roleColor(item);
      kind = item.kind;
      context.fillRect(item.x * across, 3 + item.y * down, Math.max(1, item.w * across), Math.max(1.5, item.h * down));
      if (item.stem)
        context.fillRect(
          item.stem.x * across,
          3 + item.stem.top * down,
          1.5,
          (item.stem.bottom - item.stem.top) * down,
        );
    }
  }
}
