// What a device was fed, at a glance: thumbnails, small lines, counts of labels, numbers.
import { h, s } from "../draw/dom.js";
import { count, number } from "../draw/numbers.js";
import { extent } from "../draw/scale.js";

const THUMBNAIL = 36; // pixels of a side, about
const LINE = { width: 90, height: 20 };
const LABELS = 12;

export function preview(shown, color) {
  if (!shown) return h("span", { class: "wb-faint" }, "no preview");
  if (shown.kind === "image" && shown.images.length) return images(shown.images);
  if (shown.kind === "vector" && shown.rows.length) return vectors(shown.rows, color);
  if (shown.kind === "labels" && shown.values.length) return labels(shown, color);
  const values = shown.values ?? [];
  if (!values.length) return h("span", { class: "wb-faint" }, "empty");
  return h("span", { class: "wb-code wb-numbers" }, Array.from(values, (value) => number(value)).join(", "));
}

// All images of a device on one canvas, scaled by a whole number so that pixels stay square; what they range over is said
// beside them, since each is drawn from black to white, whatever its values are.
function images(list) {
  const tall = Math.max(...list.map(({ height }) => height), 1);
  const wide = Math.max(...list.map(({ width }) => width), 1);
  const zoom = Math.max(1, Math.floor(THUMBNAIL / Math.max(tall, wide)));
  const gap = Math.max(1, Math.round(4 / zoom));
  const width = list.reduce((sum, image) => sum + image.width + gap, -gap);
  const range = rangeWords(list);
  const words = `first ${list.length} image${list.length > 1 ? "s" : ""} of ${list[0].width} × ${list[0].height}, ${range}`;
  const canvas = h("canvas", {
    class: "wb-images",
    width,
    height: tall,
    role: "img",
    "aria-label": words,
    title: words,
  });
  canvas.style.width = `${width * zoom}px`;
  canvas.style.height = `${tall * zoom}px`;
  const context = canvas.getContext("2d");
  let left = 0;
  for (const image of list) {
    context.putImageData(gray(image), left, 0);
    left += image.width + gap;
  }
  return h("div", {}, canvas, h("div", { class: "wb-faint" }, range));
}

// What images range over, all their channels; null is the range of one without a finite value.
function rangeWords(list) {
  const known = list.filter((image) => image.low !== null);
  const broken = list.reduce((sum, image) => sum + (image.broken ?? 0), 0);
  if (!known.length) return "all values NaN or Inf";
  const low = Math.min(...known.map((image) => image.low));
  const high = Math.max(...known.map((image) => image.high));
  const range = low === high ? `all values ${number(low)}` : `values ${number(low)} to ${number(high)}`;
  return broken ? `${range}, ${count(broken)} NaN or Inf` : range;
}

function gray({ width, height, pixels }) {
  const data = new ImageData(Math.max(width, 1), Math.max(height, 1));
  for (let i = 0; i < width * height; i++) data.data.set([pixels[i], pixels[i], pixels[i], 255], i * 4);
  return data;
}

function vectors(rows, color) {
  const range = extent(rows) ?? [0, 1];
  const words = `first ${rows.length} row${rows.length > 1 ? "s" : ""}, values ${number(range[0])} to ${number(range[1])}`;
  const lines = rows.map((row) => sparkline(row, range, color));
  const drawn = h("span", { class: "wb-sparklines", role: "img", "aria-label": words, title: words }, ...lines);
  const broken = rows.some((row) => !row.every(Number.isFinite));
  return broken ? h("div", {}, drawn, h("div", { class: "wb-faint" }, "NaN or Inf among them")) : drawn;
}

function sparkline(row, [low, high], color) {
  const across = LINE.width / Math.max(row.length - 1, 1);
  const up = (LINE.height - 4) / (high - low || 1);
  let d = "";
  let open = false;
  row.forEach((value, i) => {
    if (Number.isFinite(value))
      d += `${open ? "L" : "M"}${(i * across).toFixed(1)} ${(LINE.height - 2 - (value - low) * up).toFixed(1)}`;
    open = Number.isFinite(value);
  });
  return s(
    "svg",
    { ...LINE, "aria-hidden": "true" },
    s("path", { d, stroke: color, fill: "none", "stroke-width": 1.2 }),
  );
}

// A bar per value, the value beneath it.
function labels({ values, counts }, color) {
  const most = Math.max(...counts, 1);
  const shown = values.slice(0, LABELS);
  const wide = Math.max(16, ...shown.map((value) => String(value).length * 7 + 4));
  const words = `labels: ${values.map((value, i) => `${value} × ${count(counts[i])}`).join(", ")}`;
  const bars = shown.flatMap((value, i) => labelBar(value, counts[i], most, i * wide, wide, color));
  const svg = s(
    "svg",
    { class: "wb-labels", width: shown.length * wide, height: 44, role: "img", "aria-label": words },
    s("title", {}, words),
    ...bars,
  );
  const more = values.length - shown.length;
  return h("span", { class: "wb-label-counts" }, svg, more > 0 ? `and ${more} more` : null);
}

function labelBar(value, times, most, left, wide, color) {
  const tall = Math.max(1, Math.round((times / most) * 28));
  return [
    s("rect", { x: left + 2, y: 30 - tall, width: wide - 4, height: tall, fill: color, opacity: 0.75 }),
    s("text", { x: left + wide / 2, y: 42, "text-anchor": "middle" }, String(value)),
  ];
}
