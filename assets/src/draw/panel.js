// The frame all panels have: a heading, a note, buttons to save what is shown, a body.
import { h } from "./dom.js";
import { savePng, saveSvg } from "./export.js";
import { sheet } from "./sheet.js";

// `drawings()` gives what is shown, [{title, element}], and `keys()` what its colours mean, [{symbol, text}], for the
// buttons; `subject()` says whose it is. The buttons wait for `saving(true)`.
export function frame({ name, title, wide = false, drawings = null, keys = () => [], subject = () => "", tools = [] }) {
  const note = h("span", { class: "wb-note" });
  const body = h("div", { class: "wb-body" });
  const parts = drawings ? ["SVG", "PNG"].map((kind) => saver(title, kind, () => keep(kind))) : [];
  const element = h(
    "section",
    { class: `wb-panel wb-${name}${wide ? " wb-wide" : ""}`, "aria-label": title },
    h("header", {}, h("h3", {}, title), note, ...tools, ...parts),
    body,
  );

  function keep(kind) {
    const about = { panel: element, title, subject: subject(), note: note.textContent };
    const picture = sheet({ ...about, parts: drawings(), keys: keys() });
    return kind === "SVG" ? saveSvg(picture, name, element) : savePng(picture, name, element);
  }

  function saving(on) {
    for (const button of parts) button.disabled = !on;
  }
  saving(false);
  return { element, body, note, saving };
}

// What a panel says while there is nothing in it: what will be here, or why it never will.
export function emptyLine(promise) {
  const element = h("p", { class: "wb-empty" }, promise);
  const update = (state) => (element.textContent = state?.subject?.unseen ?? promise);
  return { element, update };
}

function saver(title, kind, onclick) {
  const words = `save ${title} as ${kind}`;
  return h("button", { class: "wb-small", title: words, "aria-label": words, onclick }, kind);
}

// Entries of a legend that stands on the page, as keys of a saved picture.
export const keysOf = (elements) =>
  [...elements].map((element) => {
    const texts = [...element.childNodes].map(({ textContent }) => textContent.trim());
    return { symbol: element.querySelector("svg"), text: texts.filter(Boolean).join(" ") };
  });
