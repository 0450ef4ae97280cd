// A panel's drawings as a file of its own, as SVG or PNG.
import { save } from "../files.js";

const written = (svg) => new XMLSerializer().serializeToString(svg);

// `element`: of the page, that is saved.
export function saveSvg(svg, name, element) {
  return save({ name: `${name}.svg`, mime: "image/svg+xml", data: written(svg) }, element);
}

// A picture too large for the browser has no bytes: then there is no file.
export async function savePng(svg, name, element) {
  const canvas = await painted(svg);
  canvas.toBlob((blob) => blob && save({ name: `${name}.png`, mime: "image/png", data: blob }, element));
}

async function painted(svg) {
  const [width, height] = ["width", "height"].map((side) => Number(svg.getAttribute(side)));
  const image = new Image(width, height);
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(written(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}
