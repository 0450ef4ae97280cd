// How the items look now, the same for SVG and canvas: heat, hits of the search, selection, lines to be seen.
import { ROLES } from "../draw/colors.js";
import { count } from "../draw/numbers.js";
import { color, ink, part, summed } from "./heat.js";
import { KINDS } from "./model.js";

export const kindName = (item) => KINDS[item.kind];
export const roleColor = (item) => ROLES[kindName(item)];

export class Look {
  constructor(scene, { heat = null, search = null, selected = -1, hover = -1, all = false, back = "#fff" } = {}) {
    Object.assign(this, { scene, heat, all, hover, back });
    this.selected = selected >= 0 ? scene.itemOf[selected] : -1;
    this.focus = hover >= 0 ? hover : this.selected;
    this.hits = search?.query ? new Set(search.nodes.map((n) => scene.itemOf[n])) : null;
    this.hot = search?.at >= 0 ? scene.itemOf[search.nodes[search.at]] : -1;
    this.near = this.focus < 0 ? null : this.linesOf(this.focus);
  }

  linesOf(at) {
    return [...this.scene.lines.in.of(at), ...this.scene.lines.out.of(at)];
  }

  // Whether a line belongs to the picture while nothing is selected.
  shows(line) {
    return this.all || !this.scene.lines.skip[line];
  }

  dim(at) {
    return this.hits !== null && !this.hits.has(at);
  }

  // {fill, ink: black or white letters on it, text in place of the detail}, null without heat.
  warm(at) {
    if (!this.heat) return null;
    const value = summed(this.heat, this.scene.items[at].nodes);
    if (Number.isNaN(value)) return { fill: this.back, ink: ink(null, this.back), text: "no time known" };
    const share = part(this.heat, value);
    return { fill: color(share, this.back), ink: ink(share, this.back), text: this.heat.text(value) };
  }
}

// What a screen reader says of an item; also its tooltip.
export function describeItem(model, scene, at) {
  const item = scene.items[at];
  if (item.group) {
    const ops = `${count(item.nodes.length)} folded ${kindName(item)} ops`;
    return `${item.title}, ${ops} on ${places(model, item)}; Enter expands`;
  }
  const n = item.node;
  const lines = [scene.lines.in.of(at).length, scene.lines.out.of(at).length];
  const place = `${kindName(item)} on ${model.placeText(n)}${met(model, n)}, layer ${model.layer(n)}`;
  return `${model.label(n)}, ${place}, ${lines[0]} edges in, ${lines[1]} out`;
}

const met = (model, n) => (model.toward.of(n).length ? `, with ${model.serverText(n)}` : "");

function places(model, item) {
  if (!item.stem) return model.placeText(item.nodes[0]) + met(model, item.nodes[0]);
  return item.devices.map((band) => model.bandName(band)).join(", ");
}
