// The key of a line in a legend: its colour and dashes.
import { s } from "./dom.js";

export function swatch(color, dash = null) {
  const line = s("path", { d: "M1 5H23", stroke: color, "stroke-width": 2.5, "stroke-dasharray": dash });
  return s("svg", { class: "wb-swatch", width: 24, height: 10, "aria-hidden": "true" }, line);
}
