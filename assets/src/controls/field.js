// One setting: a labelled input that keeps what the user typed until the kernel has it.
import { h } from "../draw/dom.js";
import { newId } from "../draw/ids.js";
import { written } from "./settings.js";

// `send(values)` tells the kernel.
export function field(setting, send) {
  const id = newId("setting");
  const input = setting.choices ? h("select", { id, onchange: changed }) : textInput(setting, id, changed);
  const mark = h("span", { class: "wb-next", hidden: true }, "applies to the next run");
  const hint = h("span", { class: "wb-next", hidden: true });
  const problem = h("span", { class: "wb-problem", id: `${id}-problem`, role: "status" });
  const unit = setting.unit && h("span", { class: "wb-faint" }, setting.unit);
  const row = h("span", { class: "wb-field-row" }, input, ...[unit].filter(Boolean));
  const label = h("label", { for: id, title: setting.title }, setting.label);
  const element = h("div", { class: "wb-field" }, label, row, mark, hint, problem);
  input.title = setting.title;
  input.setAttribute("aria-describedby", `${id}-problem`);

  input.addEventListener("keydown", (event) => event.key === "Escape" && giveUp());

  let known; // what the kernel has
  let typed = null; // {value, before}: what the user chose and the kernel has not confirmed

  function changed() {
    const { value, problem: why } = setting.parse(input.value.trim());
    complain(why);
    if (why) return;
    const earlier = typed ? [...typed.before, typed.value] : [known];
    typed = { value, before: earlier };
    send({ [setting.name]: value });
  }

  // Back to what the kernel has.
  function giveUp() {
    typed = null;
    complain();
    input.value = written(known);
  }

  function complain(why) {
    problem.textContent = why ? `Needs ${why}` : "";
    hint.hidden ||= Boolean(why);
    if (why) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  }

  // The kernel's value and choices. The user's own stand until they are confirmed, or turned down: the kernel then
  // has a value that is neither the old one nor theirs, or says so in a notice.
  function update(value, choices, refused) {
    if (setting.choices) offer(input, choices ?? [], value, setting.optional);
    known = value;
    if (typed && (refused || value === typed.value || !typed.before.includes(value))) typed = null;
    const editing = input.ownerDocument.activeElement === input && input.value !== written(known);
    if (typed || (editing && !setting.choices) || input.hasAttribute("aria-invalid")) return choose();
    input.value = written(known);
  }

  // New options may have lost the choice.
  function choose() {
    if (setting.choices) input.value = written(typed ? typed.value : known);
  }

  // A mark when the run that goes on was started with another value.
  function compare(running) {
    const { value, problem: why } = read();
    mark.hidden = running === undefined || why !== undefined || written(value) === written(running);
  }

  const read = () => setting.parse(input.value.trim());
  // What the field comes to together with others; nothing where it speaks for itself, or complains.
  function explain(words) {
    hint.hidden = !words || input.hasAttribute("aria-invalid");
    if (hint.textContent !== words) hint.textContent = words;
  }

  return { element, input, update, compare, read, explain, check: changedOrFine };

  // For Run: what the field says, complaining when that makes no sense.
  function changedOrFine() {
    const reading = read();
    complain(reading.problem);
    return reading;
  }
}

function textInput({ width, empty = "" }, id, changed) {
  return h("input", {
    id,
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: empty,
    style: `width: calc(${width}ch + 20px)`,
    onchange: changed,
  });
}

// Options are replaced only when they are others: an open list would close.
function offer(select, choices, value, optional = false) {
  const missing = value != null && !choices.includes(value) ? [value] : [];
  const names = [...(value == null || optional ? [""] : []), ...choices, ...missing];
  const key = JSON.stringify(names);
  if (select.dataset.choices === key) return;
  select.dataset.choices = key;
  const before = select.value;
  select.replaceChildren(...names.map((name) => h("option", { value: name }, name || "–")));
  select.value = names.includes(before) ? before : written(value);
}
