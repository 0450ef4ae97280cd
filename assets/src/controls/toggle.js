// One setting that is on or off; the same methods as a field.
import { h } from "../draw/dom.js";
import { newId } from "../draw/ids.js";

// `send(values)` tells the kernel.
export function toggle(setting, send) {
  const id = newId("switch");
  const input = h("input", { id, type: "checkbox", title: setting.title, onchange: changed });
  const mark = h("span", { class: "wb-next", hidden: true }, "applies to the next run");
  const label = h("label", { for: id, title: setting.title }, setting.label);
  const element = h("div", { class: "wb-field wb-switch" }, h("span", { class: "wb-field-row" }, input, label), mark);
  const read = () => ({ value: input.checked });
  let chosen = null; // what the kernel has not confirmed

  function changed() {
    chosen = input.checked;
    send({ [setting.name]: chosen });
  }

  // The user's choice stands until it is confirmed or refused.
  function update(value, _, refused) {
    if (refused || Boolean(value) === chosen) chosen = null;
    if (chosen === null) input.checked = Boolean(value);
  }
  function compare(running) {
    mark.hidden = running === undefined || Boolean(running) === input.checked;
  }
  return { element, input, update, compare, read, check: read };
}
