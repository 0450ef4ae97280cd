// A chart over steps, in SVG: axes, lines, bands, marks, and a crosshair that reads off the values.
//
//   const figure = chart({ height: 160 });
//   body.append(figure.element);             // figure.svg is the drawing, for saving
//   figure.draw({
//     label: "memory of temporaries",        // begins the text alternative
//     series: [{ name: "device 0", color, dash: "4 3", x, y,   // columns, x ascending; NaN breaks the line
//                low, high,                  // optional: a band around the line
//                raw,                        // optional: the same unsmoothed, drawn faintly behind
//                fill: 0.2,                  // optional: how opaque the band is
//                value: (i) => text }],      // optional: what the crosshair says, else yFormat(y[i])
//     marks: [{ name: "drops", x, color, shape: "line" | "triangle" | "pin" | "cross",
//               text: (i) => text, label: text }],
//     reads: text,                               // optional: what the crosshair's values are
//     log: false, xRange, yRange: [low, high] (what lies outside leaves the frame, and is marked at its border), xFormat, yFormat, xName: "step", zero: true to begin y at zero,
//     yTicks: (low, high, wanted) => [value …],     // optional: where y has its numbers
//   });
//
// `stacked(x, columns, names, colors)` makes series that lie on each other; `swatch(color, dash)` is a line's key for
// a legend. The width is that of the element when `draw` is called: draw again when "theme" comes. The crosshair
// follows the mouse and, with the focus, the arrow keys, Home and End; Escape takes it away.
// `onhover(step | null)` is told of it and `point(step | null)` moves it: charts below each other can go together.
import { crosshair } from "./crosshair.js";
import { h, s } from "./dom.js";
import { apart, count, number, ticks } from "./numbers.js";
import { bandPath, linePath, lonePath, markPath } from "./paths.js";
import { extent, gist, held, logTicks, padded, scale } from "./scale.js";

export { swatch } from "./swatch.js";

const BOTTOM = 18;
const RIGHT = 10;
const LETTER = 6.2; // width of a figure in the font of the axes, about
const OUTSIDE = 60; // pixels beyond the frame at which all that lies farther out is drawn

export function chart({ height = 160, onhover = () => {} } = {}) {
  const axes = s("g", { class: "wb-axes" });
  const lines = s("g", { class: "wb-lines" });
  const cursor = s("g", { class: "wb-crosshair" });
  const svg = s("svg", { class: "wb-chart-drawing", role: "img", height }, axes, lines, cursor);
  const readout = h("div", { class: "wb-readout", hidden: true });
  const spoken = h("span", { class: "wb-hidden", "aria-live": "polite" });
  const element = h("div", { class: "wb-chart", tabindex: 0, role: "group" }, svg, readout, spoken);
  const pointer = crosshair({ element, svg, cursor, readout, spoken, onhover });

  function draw(spec) {
    const data = complete(spec);
    const width = Math.max(element.clientWidth, 120);
    const plan = measure(data, width, height);
    svg.setAttribute("width", width);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const label = describe(data);
    svg.setAttribute("aria-label", label);
    element.setAttribute("aria-label", `${data.label}, arrow keys read off values`);
    axes.replaceChildren(...drawAxes(data, plan));
    lines.replaceChildren(
      ...framed([...drawBands(data, plan), ...drawLines(data, plan)], plan),
      ...drawMarks(data, plan),
    );
    pointer.show(data, plan);
  }
  return { element, svg, draw, point: pointer.point, destroy: pointer.destroy };
}

// Where an axis has long numbers, the chart has no room left.
function tick(value, digits = 4) {
  if (Math.abs(value) < 1e7) return number(value, digits);
  return String(Number(value.toPrecision(digits - 1)).toExponential());
}

function complete(spec) {
  return {
    label: "chart",
    series: [],
    marks: [],
    log: false,
    yTicks: ticks,
    xFormat: count,
    yFormat: tick,
    xName: "step",
    ...spec,
  };
}

function measure(data, width, height) {
  const xs = data.series.filter(({ x }) => x.length).map(({ x }) => [x[0], x[x.length - 1]]);
  const xRange = wide(data.xRange ?? extent(xs) ?? [0, 1]);
  const columns = data.series.flatMap(({ y, low, high, raw }) => [y, low, high, raw]).filter(Boolean);
  const dataRange = extent(columns, data.log) ?? (data.log ? [1, 10] : [0, 1]);
  const yRange =
    data.yRange ?? padded(data.zero ? [Math.min(0, dataRange[0]), Math.max(dataRange[1], 0)] : dataRange, data.log);
  const yTicks = data.log ? logTicks(...yRange) : data.yTicks(...yRange, Math.max(2, Math.floor(height / 40)));
  const yTexts = apart(yTicks, data.yFormat);
  const letters = Math.max(...yTexts.map(({ length }) => length), 1);
  const left = Math.ceil(letters * LETTER) + 10;
  const top = data.marks.some(({ label, shape }) => label || shape !== "line") ? 16 : 6;
  const box = { left, top, right: width - RIGHT, bottom: height - BOTTOM };
  const x = scale(xRange, [box.left, box.right]);
  const y = held(scale(yRange, [box.bottom, box.top], data.log), box.top - OUTSIDE, box.bottom + OUTSIDE);
  const wanted = Math.max(2, Math.floor((box.right - box.left) / 80));
  const xTicks = ticks(...xRange, wanted).filter((value) => Number.isInteger(value) || data.xFormat !== count);
  return {
    width,
    height,
    box,
    x,
    y,
    xTicks,
    yTicks,
    yTexts,
    xRange,
    isCut: dataRange[0] < yRange[0] || dataRange[1] > yRange[1],
  };
}

// A single step lies in the middle, not on the axis.
const wide = ([low, high]) => (low === high ? [low - 1, high + 1] : [low, high]);

// What leaves the frame is cut off by a drawing of its own, which needs no names as clip paths do.
function framed(drawn, { box, isCut }) {
  if (!isCut) return drawn;
  const size = { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top };
  return [
    s("svg", { ...size, class: "wb-framed", viewBox: `${size.x} ${size.y} ${size.width} ${size.height}` }, ...drawn),
  ];
}

function drawAxes(data, { box, x, y, xTicks, yTicks, yTexts }) {
  const grid = yTicks.map((value) => `M${box.left} ${Math.round(y(value)) + 0.5}H${box.right}`).join("");
  const text = (px, py, anchor, words) => s("text", { x: px, y: py, "text-anchor": anchor }, words);
  const rows = yTicks.map((value, i) => text(box.left - 6, y(value) + 3.5, "end", yTexts[i]));
  // The last number also says what is counted; a number that would run into it is left out.
  const end = box.right;
  const room = (value) => end - LETTER * (data.xName.length + data.xFormat(value).length / 2 + 1);
  const named = xTicks.filter((value) => x(value) < room(value));
  const feet = named.map((value) => `M${Math.round(x(value)) + 0.5} ${box.bottom}v4`).join("");
  const columns = named.map((value) => text(x(value), box.bottom + 14, "middle", data.xFormat(value)));
  return [
    s("path", { class: "wb-grid", d: grid }),
    s("path", { class: "wb-axis", d: `M${box.left} ${box.bottom + 0.5}H${box.right}${feet}` }),
    ...rows,
    ...columns,
    text(end, box.bottom + 14, "end", data.xName),
  ];
}

function drawBands({ series }, { x, y }) {
  return series
    .filter(({ low, high }) => low && high)
    .map(({ x: xs, low, high, color, fill = 0.18 }) =>
      s("path", { class: "wb-band", d: bandPath(xs, low, high, x, y), fill: color, opacity: fill }),
    );
}

function drawLines({ series }, { x, y }) {
  const stroke = (d, color, more) => s("path", { class: "wb-line", d, stroke: color, ...more });
  const raw = series
    .filter((one) => one.raw)
    .map((one) => stroke(linePath(one.x, one.raw, x, y), one.color, { opacity: 0.3, "stroke-width": 1 }));
  const lines = series.map((one) =>
    stroke(linePath(one.x, one.y, x, y), one.color, { "stroke-dasharray": one.dash, "stroke-width": 1.6 }),
  );
  const dots = series
    .map((one) => ({ d: lonePath(one.x, one.y, x, y), color: one.color }))
    .filter(({ d }) => d)
    .map(({ d, color }) => s("path", { class: "wb-dot", d, stroke: color, "stroke-width": 6 }));
  return [...raw, ...lines, ...dots];
}

function drawMarks({ marks, series }, plan) {
  const { x, box, isCut } = plan;
  const edges = isCut ? series.flatMap((one) => edgeMarks(one, plan)) : [];
  return edges.concat(
    marks.flatMap(({ x: xs, color, shape = "line", label }) => {
      const top = shape === "line" ? box.top : box.top - 10;
      const path = s("path", {
        class: "wb-mark",
        d: markPath(shape, xs, x, top, box.bottom),
        ...markPaint(shape, color),
      });
      return label && xs.length ? [path, markLabel(label, x(xs[0]), box)] : [path];
    }),
  );
}

// Where a line leaves the frame: an arrow at its border.
function edgeMarks({ x: xs, y: ys, color }, { x, y, box }) {
  const [up, down] = [
    leaving(ys, (value) => y(value) < box.top - 1),
    leaving(ys, (value) => y(value) > box.bottom + 1),
  ];
  const arrows = (shape, at, where) =>
    at.length
      ? [
          s("path", {
            class: "wb-mark wb-edge",
            d: markPath(
              shape,
              at.map((i) => xs[i]),
              x,
              where,
            ),
            fill: color,
          }),
        ]
      : [];
  return [...arrows("up", up, box.top), ...arrows("down", down, box.bottom)];
}

// The positions at which values begin to be outside.
function leaving(values, isOutside) {
  const positions = [];
  let before = false;
  values.forEach((value, i) => {
    const now = isOutside(value);
    if (now && !before) positions.push(i);
    before = now;
  });
  return positions;
}

function markPaint(shape, color) {
  if (shape === "triangle") return { fill: color };
  if (shape === "pin") return { fill: color, stroke: color, opacity: 0.6 };
  return { stroke: color, "stroke-dasharray": shape === "line" ? "2 3" : null };
}

// Beside its mark, on the side that has room.
function markLabel(label, px, box) {
  const left = px + label.length * LETTER > box.right;
  const place = { x: left ? px - 7 : px + 7, y: box.top - 5, "text-anchor": left ? "end" : "start" };
  return s("text", { class: "wb-mark-label", ...place }, label);
}

function describe({ label, series, marks, yFormat }) {
  const curves = series.map(({ name, y, values }) => gist(name, values ?? y, yFormat));
  const marked = marks.filter(({ x }) => x.length).map(({ name, label: words, x }) => words ?? `${x.length} ${name}`);
  return [label, ...curves, ...marked].join("; ");
}

// Series that lie on each other: `values` of each are its own, `y` the upper edge.
export function stacked(x, columns, names, colors) {
  let below = new Float64Array(x.length);
  return columns.map((values, i) => {
    const low = below;
    const y = Float64Array.from(low, (start, k) => start + (values[k] || 0));
    below = y;
    return { name: names[i], color: colors[i], x, y, low, high: y, fill: 0.45, values };
  });
}
