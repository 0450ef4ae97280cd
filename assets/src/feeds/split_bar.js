// A batch as a bar, cut into the parts of the devices: widths in proportion to the rows.
import { deviceColor } from "../draw/colors.js";
import { s } from "../draw/dom.js";
import { count } from "../draw/numbers.js";
import { rowsText, unevenText } from "./split.js";

const HEIGHT = 34;
const HEAD = 17;
const LETTER = 6.6;

export function splitBars(svg, splits, devices, width) {
  const height = splits.length * (HEIGHT + HEAD + 4);
  svg.setAttribute("width", width);
  svg.setAttribute("height", Math.max(height, 1));
  svg.setAttribute("viewBox", `0 0 ${width} ${Math.max(height, 1)}`);
  svg.setAttribute("aria-label", splits.map((split) => spoken(split, devices)).join("; "));
  svg.replaceChildren(...splits.flatMap((split, i) => bar(split, devices, width, i * (HEIGHT + HEAD + 4))));
}

function spoken(split, devices) {
  const parts = split.parts.map((part) => `${named(part, devices)} ${rowsText(part)}`);
  return [split.names.join(", "), ...parts, unevenText(split)].filter(Boolean).join(", ");
}

function bar(split, devices, width, top) {
  const uneven = unevenText(split);
  const all = split.names.join(", ");
  const short = (all.length + uneven.length + 2) * LETTER > width;
  const head = s("text", { x: 1, y: top + 12, class: "wb-code" }, short ? `${split.names.length} feeds` : all);
  const words = uneven && s("text", { x: width - 1, y: top + 12, "text-anchor": "end", class: "wb-uneven" }, uneven);
  const fed = split.parts.filter(({ rows }) => rows > 0);
  const room = (part) => place(part.rows, split.total, width) - 12;
  const names = wordings(fed, room, [
    (part) => named(part, devices),
    ({ device }) => `device ${device}`,
    ({ device }) => String(device),
  ]);
  const rows = wordings(fed, room, [rowsText, ({ first, last }) => `${count(first)}–${count(last)}`, () => ""]);
  const parts = fed.flatMap((part, i) =>
    segment(part, split, named(part, devices), [names[i], rows[i]], width, top + HEAD),
  );
  return [head, words, ...parts].filter(Boolean);
}

const named = ({ device }, devices) => devices[device] ?? `device ${device}`;

// The longest wording that has room in every part, so that all parts are worded alike.
function wordings(parts, room, ways) {
  const fits = ways.find((way) => parts.every((part) => way(part).length * LETTER <= room(part)));
  return parts.map(fits ?? ways[ways.length - 1]);
}

function segment(part, { total }, name, [title, rows], width, top) {
  const start = place(part.first, total, width);
  const end = place(part.last + 1, total, width);
  const wide = Math.max(end - start - 2, 1);
  const color = deviceColor(part.device);
  const box = { x: start + 1, y: top, height: HEIGHT };
  const label = (y, words, kind) => s("text", { x: start + 9, y: top + y, class: kind }, words);
  return [
    s("rect", { ...box, width: wide, fill: color, opacity: 0.22 }, s("title", {}, `${name}: ${rowsText(part)}`)),
    s("rect", { ...box, width: Math.min(4, wide), fill: color }),
    label(14, title, "wb-part"),
    label(28, rows, "wb-part-rows"),
  ];
}

const place = (row, total, width) => (row / total) * width;
