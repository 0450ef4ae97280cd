// All steps that were looked at, a bar each as high as the step took long: a slider that chooses the one to show.
import { theme } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { count, seconds } from "../draw/numbers.js";

const HEIGHT = 34;
const WIDEST_PX = 14;
const PAGE = 10;

export class History {
  // `choose(step)` and `follow()` are called when the user does.
  constructor({ choose, follow }) {
    Object.assign(this, { chooses: choose, steps: [], seconds: [], at: -1 });
    this.strip = h("canvas", {
      class: "wb-timeline-strip",
      role: "slider",
      tabindex: 0,
      "aria-label": "step that is shown",
    });
    this.strip.addEventListener("pointerdown", (event) => this.press(event));
    this.strip.addEventListener("pointermove", (event) => event.buttons && this.press(event));
    this.strip.addEventListener("keydown", (event) => this.key(event));
    this.text = h("span", { class: "wb-timeline-step" });
    this.button = h("button", { class: "wb-small", title: "always show the newest step", onclick: follow }, "follow");
    this.element = h("div", { class: "wb-timeline-history" }, this.text, this.strip, this.button);
  }

  // shown: the step in the picture; following: whether it is the newest by choice.
  show({ step: steps = [], seconds: durations = [] } = {}, { shown, chosen, waiting }) {
    Object.assign(this, { steps, seconds: durations, at: steps.indexOf(chosen ?? shown) });
    this.element.hidden = steps.length === 0;
    this.button.setAttribute("aria-pressed", String(chosen === null));
    this.text.textContent = this.words(waiting);
    this.strip.setAttribute("aria-valuemin", 1);
    this.strip.setAttribute("aria-valuemax", Math.max(steps.length, 1));
    this.strip.setAttribute("aria-valuenow", this.at + 1);
    this.strip.setAttribute("aria-valuetext", this.words(waiting));
    this.draw();
  }

  words(waiting) {
    if (this.at < 0) return `${count(this.steps.length)} steps looked at`;
    const step = `step ${count(this.steps[this.at])}`;
    if (waiting) return `${step}, waiting for the kernel …`;
    if (this.steps.length === 1) return `${step} took ${seconds(this.seconds[this.at])}; the only one looked at`;
    const place = this.at === this.steps.length - 1 ? "the newest" : count(this.at + 1);
    return `${step} took ${seconds(this.seconds[this.at])}; ${place} of ${count(this.steps.length)} looked at`;
  }

  draw() {
    const width = this.strip.clientWidth;
    if (!width || !this.steps.length) return;
    const ratio = devicePixelRatio;
    Object.assign(this.strip, { width: Math.round(width * ratio), height: Math.round(HEIGHT * ratio) });
    const context = this.strip.getContext("2d");
    context.scale(ratio, ratio);
    const colors = theme(this.strip);
    const all = bars(this.seconds, width);
    const highest = ceiling(all.map((bar) => bar.high));
    for (const { from, size, high, first, last } of all) {
      const mine = this.at >= first && this.at <= last;
      const tall = Math.max(1, Math.min(1, high / (highest || 1)) * (HEIGHT - 8));
      context.fillStyle = mine ? colors.brand : colors.faint;
      context.globalAlpha = mine ? 1 : 0.55;
      context.fillRect(from, HEIGHT - tall, Math.max(size, mine ? 2 : 0.5), tall);
      if (high > highest) context.clearRect(from, HEIGHT - tall + 4, size, 2); // higher than there is room for
      if (mine) marker(context, from + size / 2, HEIGHT - tall);
    }
  }

  press(event) {
    const bar = bars(this.seconds, this.strip.clientWidth).find(
      ({ from, size, gap }) => event.offsetX < from + size + gap,
    );
    this.go(bar ? bar.last : this.steps.length - 1);
  }

  key(event) {
    const by = {
      ArrowLeft: -1,
      ArrowDown: -1,
      ArrowRight: 1,
      ArrowUp: 1,
      PageDown: -PAGE,
      PageUp: PAGE,
      Home: -Infinity,
      End: Infinity,
    };
    if (!(event.key in by)) return;
    event.preventDefault();
    this.go(this.at + by[event.key]);
  }

  go(position) {
    const at = Math.min(Math.max(position, 0), this.steps.length - 1);
    if (at !== this.at) this.chooses(this.steps[at]);
  }
}

// Now and then a step takes very long, the first one mostly; it must not press the others flat.
export function ceiling(values) {
  const middle = [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
  return Math.min(Math.max(...values, 0), middle * 3);
}

function marker(context, x, y) {
  context.beginPath();
  context.moveTo(x - 4, y - 7);
  context.lineTo(x + 4, y - 7);
  context.lineTo(x, y - 1);
  context.fill();
}

// A bar for each step, or for several where they would be thinner than a pixel: [{from, size, gap, first, last, high}],
// the first three in px.
export function bars(values, width) {
  const per = Math.max(1, Math.ceil(values.length / Math.max(width, 1)));
  const number = Math.ceil(values.length / per);
  const room = Math.min(width / number, WIDEST_PX);
  const gap = room > 3 ? 1 : 0;
  return Array.from({ length: number }, (_, k) => {
    const [first, last] = [k * per, Math.min((k + 1) * per, values.length) - 1];
    let high = 0;
    for (let i = first; i <= last; i++) high = Math.max(high, values[i]);
    return { from: k * room, size: room - gap, gap, first, last, high };
  });
}
