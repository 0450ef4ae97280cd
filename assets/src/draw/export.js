// A drawing as a file of its own: with the colours it has on the page, as SVG or PNG.
import { save } from "../store.js";
import { theme } from "./colors.js";

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight", "text-anchor", "dominant-baseline"];

export function saveSvg(drawing, name) {
  const text = new XMLSerializer().serializeToString(drawing instanceof SVGElement ? alone(drawing) : wrapped(drawing));
  save({ name: `${name}.svg`, mime: "image/svg+xml", data: text });
}

export async function savePng(drawing, name) {
  const canvas = drawing instanceof SVGElement ? await painted(drawing) : drawing;
  canvas.toBlob((blob) => save({ name: `${name}.png`, mime: "image/png", data: blob }));
}

// A copy that carries its styles with it: outside the page there is no style sheet.
function alone(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    for (const name of STYLES) element.style.setProperty(name, common(style.getPropertyValue(name)));
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.style.background = theme(svg).back;
  return copy;
}

// Mixed colours are "color(srgb 0.8 0.9 1)" when computed, which few programs know besides browsers.
function common(value) {
  return value.replace(/color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)[^)]*\)/, (_, ...parts) =>
    `rgb(${parts.slice(0, 3).map((part) => Math.round(255 * part)).join(", ")})`);
}

// A canvas has no shapes any more: its picture inside an SVG.
function wrapped(canvas) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const image = document.createElementNS("http://www.w3.org/2000/svg", "image");
  for (const [name, value] of [["width", canvas.width], ["height", canvas.height]]) {
    svg.setAttribute(name, value);
    image.setAttribute(name, value);
  }
  image.setAttribute("href", canvas.toDataURL("image/png"));
  svg.append(image);
  return svg;
}

async function painted(svg) {
  const { width, height } = svg.getBoundingClientRect();
  const text = new XMLSerializer().serializeToString(alone(svg));
  const image = new Image(width, height);
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}
