// What colours and marks mean, how many nodes of each there are, and the scale of the heat map.
import { HEAT, ROLES, theme } from "../draw/colors.js";
import { mixed } from "../draw/contrast.js";
import { h, renew, s } from "../draw/dom.js";
import { newId } from "../draw/ids.js";
import { bytes, count } from "../draw/numbers.js";
import { MARKS } from "./marks.js";
import { DASHES, WIDTHS } from "./shapes.js";
import { COLLECTIVE, KINDS } from "./model.js";

// Collectives are counted by type; a click on one searches for it.
export function legend(element, model, heat, mode, find) {
  const { kinds, collectives } = model.counts();
  const parts = KINDS.flatMap((kind, at) => {
    if (at !== COLLECTIVE)
      return kinds[at] ? [h("span", { class: "wb-g-key" }, symbol(kind), `${kind} ${count(kinds[at])}`)] : [];
    return [...collectives].map(([type, times]) =>
      h(
        "button",
        { class: "wb-g-key", title: `find ${type}`, onclick: () => find(`^${type}$`) },
        symbol(kind),
        `${type} ${count(times)}`,
      ),
    );
  });
  const edges = model.message.edge.order.some((order) => order) ? [line(false, "data"), line(true, "order only")] : [];
  renew(element, [...parts, ...edges, ...model.servers.map(server), ...scale(heat, mode)]);
}

// "127.0.0.1:6174 ↑ pushed 9.4 KiB, ↓ pulled 9.4 KiB a step; 80 exchanges: pushed 753.1 KiB, pulled 753.1 KiB"
function server({ name, pushed, pulled, exchanges, toldPushed, toldPulled }) {
  const moves = [pushed >= 0 ? `↑ pushed ${bytes(pushed)}` : null, pulled >= 0 ? `↓ pulled ${bytes(pulled)}` : null];
  const step = moves.some(Boolean) ? ` ${moves.filter(Boolean).join(", ")} a step` : "";
  const sums = `${count(exchanges)} exchange${exchanges === 1 ? "" : "s"}: pushed ${bytes(toldPushed)}, pulled ${bytes(toldPulled)}`;
  return h("span", { class: "wb-g-key wb-g-moved" }, symbol("server"), `${name}${step}${exchanges ? `; ${sums}` : ""}`);
}

function symbol(kind) {
  return s(
    "svg",
    { width: 12, height: 12, viewBox: "-1 -1 12 12", "aria-hidden": "true" },
    s("path", { d: MARKS[kind], fill: ROLES[kind] }),
  );
}

function line(order, text) {
  const dash = order ? DASHES.join(" ") : null;
  const path = s("path", { class: "wb-g-line", d: "M0 6H22", "stroke-width": WIDTHS.line, "stroke-dasharray": dash });
  return h("span", { class: "wb-g-key" }, s("svg", { width: 22, height: 12, "aria-hidden": "true" }, path), text);
}

function scale(heat, mode) {
  if (mode === "none") return [];
  if (!heat)
    return [
      h(
        "span",
        { class: "wb-g-key" },
        mode === "time" ? "times come with the first step that is looked at" : "no bytes known",
      ),
    ];
  const bar = h("span", {
    class: "wb-g-scale",
    style: `background: linear-gradient(to right, color-mix(in srgb, ${HEAT} 6%, var(--wb-back)), ${HEAT})`,
  });
  const text = `${mode} from ${heat.text(heat.low)} to ${heat.text(heat.high)}, logarithmic`;
  return [
    h(
      "span",
      { class: "wb-g-key", title: `${text}; a folded box shows the sum of its ops` },
      heat.text(heat.low),
      bar,
      heat.text(heat.high),
    ),
  ];
}

// The same for a saved picture.
export function legendKeys(element) {
  return [...element.children].map((key) => {
    const texts = [...key.childNodes].map(({ textContent }) => textContent).filter(Boolean);
    const symbol = key.querySelector(".wb-g-scale") ? scaleSymbol(theme(element).back) : key.querySelector("svg");
    return { symbol, text: texts.join(" to ") };
  });
}

function scaleSymbol(back) {
  const stop = (offset, color) => s("stop", { offset, "stop-color": color });
  const cold = `rgb(${mixed(HEAT, back, 0.06).map(Math.round).join(", ")})`;
  const id = newId("heat");
  const gradient = s("linearGradient", { id }, stop(0, cold), stop(1, HEAT));
  return s("svg", { width: 60, height: 10 }, gradient, s("rect", { width: 60, height: 10, fill: `url(#${id})` }));
}
