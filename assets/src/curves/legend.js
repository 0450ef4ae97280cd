// Checkboxes for runs and for series. Entries are kept as long as what they stand for: the keyboard's place is not lost.
import { h } from "../draw/dom.js";
import { icon } from "../draw/icons.js";
import { swatch } from "../draw/swatch.js";

export function legend(label, changed) {
  const element = h("div", { class: "wb-legend", role: "group", "aria-label": label });
  const entries = new Map();

  // entries: [{id, label, shown, color?, dash?, state?, note?}]
  function update(wanted) {
    const ids = new Set(wanted.map(({ id }) => id));
    for (const [id, { row }] of entries) {
      if (ids.has(id)) continue;
      row.remove();
      entries.delete(id);
    }
    for (const one of wanted) {
      if (!entries.has(one.id)) entries.set(one.id, entry(one, changed));
      const { row, show } = entries.get(one.id);
      if (!row.parentNode) element.append(row);
      show(one);
    }
  }
  return { element, update };
}

function entry({ id, color, dash }, changed) {
  const box = h("input", { type: "checkbox", onchange: () => changed(id, box.checked) });
  const name = h("span", { class: "wb-legend-name" });
  const state = h("span", { class: "wb-faint" });
  const note = h("span", { class: "wb-legend-note" });
  const row = h("label", {}, box, color ? swatch(color, dash) : null, name, state, note);
  let shown = "";

  function show(one) {
    box.checked = one.shown;
    const key = JSON.stringify([one.label, one.state, one.note]);
    if (key === shown) return;
    shown = key;
    name.textContent = one.label;
    state.replaceChildren(...(one.state ? [icon(one.state), one.state] : []));
    note.replaceChildren(...(one.note ? [icon("note"), one.note] : []));
  }
  return { row, show };
}
