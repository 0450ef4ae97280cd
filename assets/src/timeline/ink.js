// Colours and hatches of the timeline. A role has a mark besides its colour: backward a bar below, optimize a bar
// above, collectives stripes.
import { ROLES, theme } from "../draw/colors.js";
import { s } from "../draw/dom.js";

export const KINDS = ["forward", "backward", "optimize", "server", "collective", "other", "wait"];
const TEXT = {
  forward: "#ffffff",
  backward: "#000000",
  optimize: "#000000",
  server: "#000000",
  collective: "#000000",
  other: "#000000",
};
const HATCH_PX = 6;
const BAR_PX = 4;

export function inkOf(element, context, ratio) {
  const colors = theme(element);
  const font = getComputedStyle(element).fontFamily;
  return {
    ...colors,
    fill: { ...ROLES, other: "#999999" },
    on: { ...TEXT, wait: colors.faint },
    font: `11px ${font}`,
    bold: `600 11px ${font}`,
    idle: hatch(context, ratio, colors.line, 1),
    stripes: hatch(context, ratio, "rgba(0, 0, 0, 0.45)", 1.6),
  };
}

// A span of a kind in a legend, as SVG.
export function kindSymbol(kind) {
  if (kind === "wait") {
    const frame = { x: 0.5, y: 0.5, width: 17, height: 10, fill: "none", stroke: "#999999" };
    return s("svg", { width: 18, height: 11 }, s("rect", frame));
  }
  const fill = { ...ROLES, other: "#999999" }[kind];
  const mark = { fill: "none", stroke: "#000000", "stroke-opacity": 0.5 };
  const marks = {
    backward: s("path", { d: "M0 9.5H18", "stroke-width": 3, ...mark }),
    optimize: s("path", { d: "M0 1.5H18", "stroke-width": 3, ...mark }),
    server: s("path", { d: "M0 1.5H18M0 9.5H18", "stroke-width": 3, ...mark }),
    collective: s("path", { d: "M0 6L6 0M3 11L14 0M11 11L18 4", "stroke-width": 1.5, ...mark }),
  };
  return s("svg", { width: 18, height: 11 }, s("rect", { width: 18, height: 11, fill }), marks[kind]);
}

// Parallel lines that go down to the left.
function hatch(context, ratio, color, width) {
  const size = HATCH_PX * ratio;
  const tile = Object.assign(document.createElement("canvas"), { width: size, height: size });
  const inner = tile.getContext("2d");
  inner.scale(ratio, ratio);
  inner.strokeStyle = color;
  inner.lineWidth = width;
  inner.beginPath();
  for (const shift of [-HATCH_PX, 0, HATCH_PX]) {
    inner.moveTo(shift - 1, HATCH_PX + 1);
    inner.lineTo(shift + HATCH_PX + 1, -1);
  }
  inner.stroke();
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

// Nothing runs: a frame around nothing.
function empty(context, ink, x, y, width, height) {
  context.fillStyle = ink.back;
  context.fillRect(x, y, width, height);
  context.strokeStyle = ink.faint;
  context.lineWidth = 1;
  if (width > 2) context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

// A span of a kind: its colour and its mark.
export function block(context, ink, kind, x, y, width, height) {
  if (kind === "wait") return empty(context, ink, x, y, width, height);
  context.fillStyle = ink.fill[kind];
  context.fillRect(x, y, width, height);
  if (kind === "collective") {
    context.fillStyle = ink.stripes;
    context.fillRect(x, y, width, height);
  }
  context.fillStyle = "rgba(0, 0, 0, 0.5)";
  if (kind === "optimize" || kind === "server") context.fillRect(x, y, width, BAR_PX);
  if (kind === "backward" || kind === "server") context.fillRect(x, y + height - BAR_PX, width, BAR_PX);
}
