// What can be done with the run, and the settings of the next one.
import { h } from "../draw/dom.js";
import { BUTTONS, button } from "../controls/buttons.js";
import { field } from "../controls/field.js";
import { toggle } from "../controls/toggle.js";
import { lengthOf, SETTINGS } from "../controls/settings.js";

const GOING_ON = ["ready", "running", "paused"];

// What a button may change. While a run goes on its steps do anyway, whether the kernel listens or not.
const standing = ({ run, controls: now, notice } = {}) =>
  JSON.stringify([run?.id, run?.state, run?.state === "paused" && run.step, now?.allowed, now?.busy, notice?.id]);

export function controls(store) {
  const fields = new Map(
    SETTINGS.map((setting) => [setting.name, (setting.toggle ? toggle : field)(setting, sendValues)]),
  );
  const buttons = BUTTONS.map((one) => button(one, act));
  const busy = h("span", { class: "wb-faint", role: "status" });
  const row = h(
    "div",
    { class: "wb-buttons", role: "toolbar", "aria-label": "run" },
    ...buttons.map(({ element }) => element),
    busy,
  );
  const inputs = [...fields.values()].map(({ element }) => element);
  const settings = h(
    "div",
    { class: "wb-settings", role: "group", "aria-label": "settings of the next run" },
    ...inputs,
  );
  const element = h("section", { class: "wb-controls wb-wide", "aria-label": "controls" }, row, settings);
  let asked = null; // what there was when a button was pressed that has not been answered
  let notice = null;
  let running = { id: null, values: null }; // the settings of the run that goes on

  function sendValues(values) {
    store.send({ type: "set", values });
    compare();
  }

  function act(name) {
    const values = begins(name) ? allValues() : {};
    if (!values) return false;
    asked = standing(store.state);
    store.command(name, values);
    return true;
  }

  // Where nothing runs, a step begins a run.
  const begins = (name) => name === "run" || (name === "step" && store.state.controls.allowed.includes("run"));

  // What all fields say; null, and the first that makes no sense has the focus, when they cannot be used.
  function allValues() {
    const readings = [...fields].map(([name, one]) => ({ name, one, reading: one.check() }));
    const wrong = readings.find(({ reading }) => reading.problem);
    wrong?.one.input.focus();
    return wrong ? null : Object.fromEntries(readings.map(({ name, reading }) => [name, reading.value]));
  }

  function update(kinds) {
    if (!kinds.has("state") && !kinds.has("clicks")) return;
    const { controls: now = null, run = null, notice: said = null } = store.state ?? {};
    const { clicks } = store;
    if (clicks.words && !clicks.waiting.size) asked = null; // nothing will come of it
    if (asked === null || asked !== standing(store.state)) {
      asked = null;
      for (const each of buttons) each.update(now?.allowed ?? []);
    }
    const words = clicks.words || (now?.busy ?? "");
    if (busy.textContent !== words) busy.textContent = words;
    const refused = said?.kind === "error" && said.id !== notice;
    notice = said?.id ?? notice;
    for (const [name, one] of fields) one.update(now?.values?.[name] ?? null, now?.choices?.[name], refused);
    remember(run, now);
    compare();
  }

  // A run says what it was started with; one that does not has what was set when it appeared.
  function remember(run, now) {
    if (!run || !GOING_ON.includes(run.state)) running = { id: run?.id ?? null, values: null };
    else if (run.values) running = { id: run.id, values: run.values };
    else if (running.id !== run.id || !running.values) running = { id: run.id, values: { ...now?.values } };
  }

  function compare() {
    for (const [name, one] of fields) one.compare(running.values?.[name]);
    const lengths = ["steps", "epochs"].map((name) => fields.get(name).read().value);
    fields.get("steps").explain(lengthOf(...lengths, store.state?.controls?.values?.steps));
  }

  return { element, update };
}
