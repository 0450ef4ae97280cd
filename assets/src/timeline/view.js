// The part of a step that is shown, in µs; always inside the step.

const NARROWEST = 1e-5; // of the step
const NARROWEST_US = 0.2;

export class View {
  constructor(duration = 1) {
    this.duration = duration;
    this.whole();
  }

  get width() {
    return this.to - this.from;
  }

  get isWhole() {
    return this.from === 0 && this.to === this.duration;
  }

  whole() {
    [this.from, this.to] = [0, this.duration];
  }

  // Another step: what was whole stays whole, a part stays where it is as far as the new step goes.
  resize(duration) {
    const whole = this.isWhole;
    this.duration = duration;
    if (whole) this.whole();
    else this.show(this.from, this.to);
  }

  show(from, to) {
    const least = Math.min(this.duration, Math.max(NARROWEST_US, this.duration * NARROWEST));
    const width = Math.min(Math.max(to - from, least), this.duration);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - width / 2, 0), this.duration - width);
    this.to = this.from + width;
    if (width > this.duration * 0.999) this.whole();
  }

  // `factor` < 1 shows less; the time `at` stays where it is.
  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(by) {
    const inside = Math.min(Math.max(by, -this.from), this.duration - this.to);
    this.from += inside;
    this.to += inside;
  }

  // Moves as little as is needed to have [start, end] in sight.
  reveal(start, end) {
    if (start < this.to && end > this.from) return;
    this.pan((start + end) / 2 - (this.from + this.to) / 2);
  }
}

// Times to pixels and back, for a drawing that begins at `left` and is `width` px wide.
export function scale(view, left, width) {
  const perPixel = view.width / Math.max(width, 1);
  return {
    x: (time) => left + (time - view.from) / perPixel,
    time: (x) => view.from + (x - left) * perPixel,
    perPixel,
  };
}
