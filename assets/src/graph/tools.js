// The row of controls above the drawing.
import { h } from "../draw/dom.js";
import { count } from "../draw/numbers.js";

const STEP = 1.25;

export function tools(act) {
  const search = h("input", {
    type: "search",
    placeholder: "search ops, values, layers",
    "aria-label": "search the graph; Enter goes to the next hit, Shift and Enter to the one before",
  });
  search.addEventListener("input", () => act.find(search.value));
  search.addEventListener("keydown", (event) => searchKey(event, search, act));
  const hits = h("span", { class: "wb-g-hits", role: "status" });
  const heat = h(
    "select",
    { onchange: () => act.heat(heat.value) },
    ...Object.entries(act.modes).map(([mode, text]) => h("option", { value: mode }, text)),
  );
  const all = h("input", { type: "checkbox", onchange: () => act.all(all.checked) });
  const hidden = h("span", {}, "all edges");
  const table = h(
    "button",
    {
      class: "wb-small",
      "aria-pressed": "false",
      title: "the ops as a table",
      "aria-label": "SSA graph as a table",
      onclick: () => show(!pressed()),
    },
    "table",
  );
  const pressed = () => table.getAttribute("aria-pressed") === "true";
  const show = (on) => {
    if (on === pressed()) return;
    table.setAttribute("aria-pressed", String(on));
    act.table(on);
  };
  const button = (text, title, act_) => h("button", { title, "aria-label": title, onclick: act_ }, text);
  const element = h(
    "div",
    { class: "wb-g-tools" },
    search,
    hits,
    h(
      "span",
      { class: "wb-g-group" },
      button("−", "zoom out", () => act.zoom(1 / STEP)),
      button("+", "zoom in", () => act.zoom(STEP)),
      button("fit", "fit the graph, no smaller than can be read", act.fit),
    ),
    h(
      "span",
      { class: "wb-g-group" },
      h("button", { onclick: act.expand }, "expand all"),
      h("button", { onclick: act.collapse }, "collapse all"),
    ),
    h("label", {}, "heat", heat),
    h(
      "label",
      { title: "long edges between lanes are shown when a node is selected, or all of them with this" },
      all,
      hidden,
    ),
  );
  return {
    element,
    table,
    query: () => search.value,
    hits: (text) => {
      hits.textContent = text;
    },
    hidden: (number) => {
      hidden.textContent = number ? `all edges (${count(number)} more)` : "all edges";
    },
    drawing: () => show(false),
    ask(query) {
      search.value = query;
      act.find(query);
      act.step(1);
    },
  };
}

function searchKey(event, search, act) {
  if (event.key === "Enter") act.step(event.shiftKey ? -1 : 1);
  else if (event.key === "Escape") {
    search.value = "";
    act.find("");
  } else return;
  event.preventDefault();
}
