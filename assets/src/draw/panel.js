// The frame all panels have: a heading, a note, buttons to save what is shown, a body.
import { h } from "./dom.js";
import { savePng, saveSvg } from "./export.js";

// `drawing()` gives the <svg> or <canvas> that is shown, for the buttons.
export function frame({ name, title, wide = false, drawing = null, tools = [] }) {
  const note = h("span", { class: "wb-note" });
  const body = h("div", { class: "wb-body" });
  const saving = drawing
    ? [
        saver(`save ${title} as SVG`, "SVG", () => saveSvg(drawing(), name)),
        saver(`save ${title} as PNG`, "PNG", () => savePng(drawing(), name)),
      ]
    : [];
  const element = h(
    "section",
    { class: `wb-panel wb-${name}${wide ? " wb-wide" : ""}`, "aria-label": title },
    h("header", {}, h("h3", {}, title), note, ...tools, ...saving),
    body,
  );
  return { element, body, note };
}

const saver = (title, text, onclick) => h("button", { class: "wb-small", title, "aria-label": title, onclick }, text);
