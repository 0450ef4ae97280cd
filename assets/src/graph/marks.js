// A mark for each kind of node, besides its colour, and the curves of edges. Paths in a square of 10.

export const MARKS = {
  forward: "M1 1L9 5L1 9Z",
  backward: "M9 1L1 5L9 9Z",
  optimize: "M1.5 1.5H8.5V8.5H1.5Z",
  server: "M5 1A4 4 0 1 1 5 9A4 4 0 1 1 5 1Z",
  collective: "M5 0L10 5L5 10L0 5Z",
};

// As many letters as have room, the middle left out: both ends of a name tell something.
export function shortened(text, width, letter) {
  const room = Math.max(3, Math.floor(width / letter));
  if (text.length <= room) return text;
  const head = Math.ceil((room - 1) * 0.6);
  return `${text.slice(0, head)}…${text.slice(text.length - (room - 1 - head))}`;
}

// Of line k from (x0, y0) to (x1, y1) with the middle points of its curve; lines over boxes of their lane bow upwards.
export function curve(lines, k) {
  const [x0, y0, x1, y1] = lines.ends.subarray(4 * k, 4 * k + 4);
  const pull = Math.max(10, Math.min(60, Math.abs(x1 - x0) / 2));
  const up = lines.bow[k] * 1.33;
  return [x0, y0, x0 + pull, y0 - up, x1 - pull, y1 - up, x1, y1];
}
