// That there is no kernel any more, and how to go on.
import { h } from "../draw/dom.js";
import { icon } from "../draw/icons.js";

export function lost(store) {
  const element = h("section", {
    class: "wb-alert wb-gone wb-wide",
    role: "alert",
    "aria-label": "kernel",
    hidden: true,
  });

  function update(kinds) {
    if (!kinds.has("presence")) return;
    const why = store.presence.lost;
    element.hidden = !why;
    element.replaceChildren(...(why ? describe(why, store.state) : []));
  }
  return { element, update };
}

function describe(why, state) {
  const cell = state?.subject?.cell;
  const ended = state?.run
    ? ` ${state.run.name} stands after step ${state.run.step.toLocaleString("en")}, as far as is known.`
    : "";
  return [
    h("div", { class: "wb-alert-head" }, icon("failed"), `${why}.`),
    h("div", {}, `What is shown here is what was known last, and the buttons do nothing.${ended}`),
    h(
      "div",
      {},
      "To go on, run the cells of the notebook again, up to ",
      h("span", { class: "wb-code" }, cell ?? "the one above this page"),
      ".",
    ),
  ];
}
