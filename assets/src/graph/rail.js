// The names of the devices and lanes at the left, in sight wherever the scene is moved to.
import { s } from "../draw/dom.js";
import { shortened } from "./marks.js";
import { COLLECTIVE, KINDS } from "./model.js";
import { RAIL } from "./camera.js";

const LEAST = 11; // pixels of height for a name

// Texts with their place in the scene: {text, y, height, strong}.
export function railTexts({ devices, lanes, shared, items }, model) {
  const texts = devices.flatMap((band) => [
    { text: model.devices[band.device] ?? "", y: band.y, height: band.height, strong: true },
    ...KINDS.slice(0, COLLECTIVE).flatMap((text, kind) => named(lanes[COLLECTIVE * band.device + kind], text)),
  ]);
  const collective = items.some((item) => item.kind === COLLECTIVE);
  return [...texts, ...named(lanes[shared], collective ? "collectives" : "fetches")];
}

const named = (lane, text) =>
  lane?.rows ? [{ text, y: lane.y, height: lane.top + lane.height - lane.y, strong: false }] : [];

// Where a text goes on the screen, null where there is no room for it.
export function railPlace({ y, height, strong }, camera) {
  if (height * camera.k < (strong ? LEAST : 2 * LEAST)) return null;
  return y * camera.k + camera.y + (strong ? 11 : Math.min(20, (height * camera.k) / 2) + 5);
}

export const railText = ({ text, strong }) => shortened(text, RAIL - 8, strong ? 6.8 : 5.6);

export function svgRail() {
  const back = s("rect", { class: "wb-g-railback", x: 0, y: 0, width: RAIL - 2 });
  const texts = s("g");
  const element = s("g", { class: "wb-g-rail", "aria-hidden": "true" }, back, texts);
  let all = [];
  return {
    element,
    show(scene, model) {
      all = railTexts(scene, model).map((text) => ({
        ...text,
        element: s("text", { x: 6, class: text.strong ? "wb-g-device" : "" }, railText(text)),
      }));
      texts.replaceChildren(...all.map((text) => text.element));
    },
    move(camera) {
      back.setAttribute("height", camera.height);
      for (const text of all) {
        const y = railPlace(text, camera);
        text.element.setAttribute("display", y === null ? "none" : "inline");
        if (y !== null) text.element.setAttribute("y", y);
      }
    },
  };
}
