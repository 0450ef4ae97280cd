// What is saved: one SVG that begins with the panel's title and subject, says what colours mean, and has all drawings
// of the panel below each other, with the colours that they have on the page.
import { theme } from "./colors.js";
import { s } from "./dom.js";

const PAD = 12;
const LEAST = 360;
const LETTER = 6.4;
const LINE = 16;
const STYLES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
];

// parts: [{title, element}], an <svg> or <canvas> each, or a title alone; keys: [{symbol: <svg> or null, text}].
export function sheet({ panel, title, subject, note, parts, keys }) {
  const colors = theme(panel);
  const width = Math.max(LEAST, ...parts.map(({ element }) => (element ? sizeOf(element).width : 0))) + 2 * PAD;
  const shapes = [];
  let y = PAD;
  const say = (words, style) => {
    for (const line of lines(words, (width - 2 * PAD) / LETTER)) {
      shapes.push(s("text", { x: PAD, y: y + 12, "font-size": 12, fill: colors.text, ...style }, line));
      y += LINE;
    }
  };
  say([title, subject].filter(Boolean).join(": "), { "font-size": 14, "font-weight": 600 });
  say(note, { fill: colors.faint });
  for (const row of rowsOf(keys, width - 2 * PAD)) {
    for (const key of row) shapes.push(...keyShapes(key, y, colors));
    y += LINE + 2;
  }
  for (const { title: words = "", element } of parts) {
    y += 6;
    say(words, { "font-weight": 600 });
    if (!element) continue;
    const copy = element instanceof SVGElement ? vector(element) : image(element);
    for (const [name, value] of Object.entries({ x: PAD, y, ...sizeOf(element) })) copy.setAttribute(name, value);
    shapes.push(copy);
    y += sizeOf(element).height;
  }
  const size = { width, height: Math.ceil(y + PAD) };
  const back = s("rect", { ...size, fill: colors.back });
  return s(
    "svg",
    { ...size, viewBox: `0 0 ${size.width} ${size.height}`, "font-family": "system-ui, sans-serif" },
    back,
    ...shapes,
  );
}

// Canvases that are on no page have the size that their style says.
function sizeOf(element) {
  const { width, height } = element.getBoundingClientRect();
  if (width) return { width, height };
  const of = (name) => parseFloat(element.style[name]) || Number(element.getAttribute(name)) || 0;
  return { width: of("width"), height: of("height") };
}

// Words in lines of so many letters.
export function lines(words, letters) {
  const rows = [];
  for (const word of (words ?? "").split(" ").filter(Boolean)) {
    const last = rows.at(-1);
    if (last !== undefined && last.length + word.length < letters) rows[rows.length - 1] = `${last} ${word}`;
    else rows.push(word);
  }
  return rows;
}

// Keys side by side, each with its place, as many as a row has room for.
export function rowsOf(keys, width) {
  const rows = [];
  let x = Infinity;
  for (const key of keys) {
    const mark = key.symbol ? sizeOf(key.symbol).width + 5 : 0;
    const wide = mark + key.text.length * LETTER + 14;
    if (x + wide > width) {
      rows.push([]);
      x = 0;
    }
    rows.at(-1).push({ ...key, x: PAD + x, mark });
    x += wide;
  }
  return rows;
}

function keyShapes({ symbol, text, x, mark }, y, colors) {
  const words = s("text", { x: x + mark, y: y + 11, "font-size": 12, fill: colors.text }, text);
  if (!symbol) return [words];
  const copy = vector(symbol);
  const { width, height } = sizeOf(symbol);
  for (const [name, value] of Object.entries({ x, y: y + (14 - height) / 2, width, height }))
    copy.setAttribute(name, value);
  return [copy, words];
}

// A copy that carries its styles with it: outside the page there is no style sheet.
function vector(svg) {
  const copy = svg.cloneNode(true);
  if (!svg.isConnected) return copy;
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of STYLES) element.style.setProperty(name, common(style.getPropertyValue(name)));
  });
  return copy;
}

// Mixed colours are "color(srgb 0.8 0.9 1)" when computed, which few programs know besides browsers.
function common(value) {
  return value.replace(
    /color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)[^)]*\)/,
    (_, ...parts) =>
      `rgb(${parts
        .slice(0, 3)
        .map((part) => Math.round(255 * part))
        .join(", ")})`,
  );
}

// A canvas has no shapes any more: its picture.
function image(canvas) {
  const sharp = getComputedStyle(canvas).imageRendering === "pixelated" ? "image-rendering: pixelated" : null;
  return s("image", { href: canvas.toDataURL("image/png"), preserveAspectRatio: "none", style: sharp });
}
