// What a scene is made of, in its own units: the same shapes for SVG and for the canvas, which only put them down.
import { BOX } from "./bands.js";
import { kindName } from "./look.js";
import { COLLECTIVE } from "./model.js";
import { curve, shortened } from "./marks.js";

const PER_LETTER = { title: 6.6, detail: 5.7, frame: 5.6 };

export const FONTS = {
  title: { size: 11, weight: 500 },
  detail: { size: 9.5, weight: 400 },
  plus: { size: 13, weight: 400 },
  frame: { size: 9.5, weight: 400 },
};
export const ALPHA = { band: 0.22, across: 0.09, frame: 0.6, line: 0.7, quiet: 0.22, near: 1, dim: 0.25 };
export const WIDTHS = { box: 1, frame: 0.8, line: 0.9, near: 1.9, stem: 1.5, collective: 3 };
export const DASHES = [4, 3]; // of lines along which no data go

// Behind everything, across the whole width.
export function bandShapes({ devices, lanes, shared, among }) {
  const between = [lanes[shared], lanes[among]].filter((lane) => lane?.rows);
  return [
    ...devices.map(({ y, height }) => ({ y, height, alpha: ALPHA.band, across: false })),
    ...between.map(({ top, height }) => ({ y: top, height, alpha: ALPHA.across, across: true })),
  ];
}

// Of a box, from its corner on. `backs`: how far the boxes behind a folded group are shifted.
export function boxShapes(item) {
  const { w, title, group } = item;
  return {
    backs: group ? [6, 3] : [],
    strip: 4,
    mark: { name: kindName(item), x: 8, y: 6, scale: 0.85 },
    title: words("title", 20, 14, title, w - (group ? 40 : 26)),
    plus: group ? { font: "plus", x: w - 13, y: 15, text: "+" } : null,
  };
}

// The second line of a box, which changes with the heat.
export const detailShape = (item, warm) => words("detail", 20, 26, warm ? warm.text : item.detail, item.w - 26);

export function frameShapes({ tag, group, ...border }) {
  const title = words("frame", tag.x + 5, tag.y + 10, group.title, tag.w - 18);
  return { border, tag, title: { ...title, text: `− ${title.text}` } };
}

// The stem of a node goes through all devices; each that takes part has a mark on it.
export function stemShapes(item) {
  const { x, top, bottom, marks } = item.stem;
  const middle = item.y + BOX / 2;
  return {
    width: item.kind === COLLECTIVE ? WIDTHS.collective : WIDTHS.stem,
    lines: [
      [x, top, x, bottom],
      [x, middle, item.x, middle],
    ],
    marks: marks.map(({ y }) => ({ name: kindName(item), x: x - 5, y: y - 5, scale: 1 })),
  };
}

export const lineShape = (lines, k) => ({ curve: curve(lines, k), dashed: Boolean(lines.order[k]) });

const words = (font, x, y, text, room) => ({ font, x, y, text: shortened(text, room, PER_LETTER[font]) });
