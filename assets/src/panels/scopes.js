// What the scopes hold: temporaries over the steps and when they were dropped, the live values, the cost of strategies.
import { chart, swatch } from "../draw/chart.js";
import { deviceColor } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { emptyLine, frame, keysOf } from "../draw/panel.js";
import { LiveTable } from "../scopes/live.js";
import { deviceDash, memorySpec, noteWords, PINS, sinceDrop } from "../scopes/memory.js";
import { totalsView } from "../scopes/totals.js";

const EMPTY = "Here you will see the memory of temporaries, and when scopes were dropped, as soon as a run has begun.";
const LATELY = 10;
const HELD = "Temporaries held";

export function scopes(store) {
  const figure = chart({ height: 170 });
  const choose = () => {
    chosen = true;
    drawMemory(store.scopes);
  };
  let chosen = false;
  const range = h(
    "select",
    { "aria-label": "steps of the memory chart", onchange: choose },
    h("option", { value: "all" }, "all steps"),
    h("option", { value: "lately" }, `last ${LATELY} drops`),
  );
  const title = "Memory and scopes";
  const { element, body, note, saving } = frame({
    name: "scopes",
    title,
    wide: true,
    drawings: () => [{ title: HELD, element: figure.svg }],
    keys: () => keysOf(keys.children),
    subject: () => store.subject,
  });
  const empty = emptyLine(EMPTY);
  const keys = h("div", { class: "wb-scopes-keys" });
  const memory = h("div", {}, h("div", { class: "wb-live-bar" }, h("h4", {}, HELD), range), keys, figure.element);
  const totals = totalsView();
  const live = new LiveTable();
  const columns = h("div", { class: "wb-scopes-columns" }, h("div", {}, memory, totals.element), live.element);
  body.append(empty.element, columns);
  showAll(null);

  function update(kinds) {
    if (kinds.has("state")) empty.update(store.state);
    if (kinds.has("scopes")) showAll(store.scopes);
    else if (kinds.has("theme")) drawMemory(store.scopes);
    if (kinds.has("theme")) live.resized();
  }

  function showAll(message) {
    const traced = Boolean(message?.memory?.step.length);
    const any = traced || Boolean(message?.live?.length) || Boolean(message?.totals?.length);
    empty.element.hidden = any;
    columns.hidden = !any;
    memory.hidden = !traced;
    saving(traced);
    note.textContent = any ? noteWords(message) : "";
    totals.show(message ?? {});
    live.show(message ?? {});
    drawMemory(message);
  }

  function drawMemory(message) {
    if (!message?.memory?.step.length) return;
    const { devices, drops } = message;
    keys.replaceChildren(...(devices.length > 1 ? devices.map(key) : []));
    const number = drops?.step.length ?? 0;
    range.hidden = number <= LATELY;
    if (!chosen) range.value = number > PINS ? "lately" : "all"; // so many teeth would be a blot
    const from = range.value === "lately" ? sinceDrop(drops, LATELY) : -Infinity;
    figure.draw(memorySpec(message, from));
  }

  return { element, update, destroy: figure.destroy };
}

const key = (label, device) => h("span", {}, swatch(deviceColor(device), deviceDash(device)), label);
