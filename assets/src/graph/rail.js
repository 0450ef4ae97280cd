// The names of the devices and lanes at the left, in sight wherever the scene is moved to.
import { s } from "../draw/dom.js";
import { bytes } from "../draw/numbers.js";
import { shortened } from "./marks.js";
import { COLLECTIVE, KINDS } from "./model.js";
import { RAIL } from "./camera.js";

const LEAST = 11; // pixels of height for a name
const LINE = 12;

// Texts with their place in the scene: {text, y, height, strong, below: lines of text above it that are not strong,
// whole: what is said of it where the pointer is over it, if that is more than the text}.
export function railTexts({ devices, lanes, shared, among, items }, model) {
  const texts = devices.flatMap((band) => [
    ...(band.device < model.firstServer
      ? [title(model.devices.length ? model.bandName(band.device) : "", band), ...roles(lanes, band)]
      : server(model.servers[band.device - model.firstServer], band)),
  ]);
  const between = named(lanes[shared], "across devices");
  return [...texts, ...between, ...(model.servers.length ? severalServers(lanes[among], items, model) : [])];
}

// Which ones they are has no room beside the lane.
function severalServers(lane, items, model) {
  const nodes = items.filter((item) => item.lane === model.among).flatMap((item) => item.nodes);
  const met = new Set(nodes.flatMap((node) => Array.from(model.toward.of(node))));
  const names = model.servers.filter((_, server) => met.has(server)).map(({ name }) => name);
  const whole = `several servers: ${names.join(", ")}`;
  return named(lane, "several servers").map((text) => ({ ...text, whole }));
}

const roles = (lanes, band) =>
  KINDS.slice(0, COLLECTIVE).flatMap((text, kind) => named(lanes[COLLECTIVE * band.device + kind], text));

const title = (text, { y, height }, whole = text) => ({ text, y, height, strong: true, whole });

// The name of a server, its port on a line of its own if need be, and what a step pushes to it and pulls from it.
function server({ name, pushed, pulled }, band) {
  const port = name.lastIndexOf(":");
  const [host, own] = port > 0 && cut(name) ? [name.slice(0, port), name.slice(port)] : [name, null];
  const texts = [own, pushed >= 0 ? `↑ ${bytes(pushed)}` : null, pulled >= 0 ? `↓ ${bytes(pulled)}` : null];
  const { y, height } = band;
  const lines = texts.filter(Boolean).map((text, below) => ({ text, y, height, strong: false, below }));
  return [title(host, band, name), ...lines];
}

const cut = (name) => railText({ text: name, strong: true }) !== name;

const named = (lane, text) =>
  lane?.rows ? [{ text, y: lane.y, height: lane.top + lane.height - lane.y, strong: false }] : [];

// Where a text goes on the screen, null where there is no room for it.
export function railPlace({ y, height, strong, below = 0 }, camera) {
  if (height * camera.k < (strong ? LEAST : (2 + below) * LEAST)) return null;
  return y * camera.k + camera.y + (strong ? 11 : Math.min(20, (height * camera.k) / 2) + 5 + below * LINE);
}

export const railText = ({ text, strong }) => shortened(text, RAIL - 8, strong ? 6.8 : 5.6);

// What is said of the text at this place of the screen: names that are cut short, and servers that are not named.
export function railWords(scene, model, camera, px, py) {
  if (px >= RAIL) return "";
  const there = railTexts(scene, model).find((text) => {
    const y = text.whole ? railPlace(text, camera) : null;
    return y !== null && py > y - LINE && py < y + 4;
  });
  return there?.whole ?? "";
}

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
