// What went wrong, and what the kernel has to say.
import { h } from "../draw/dom.js";
import { icon } from "../draw/icons.js";

// The error of a failed run; it stays until another run, or this one again, goes on.
export function alertBox() {
  const element = h("div", { class: "wb-alert", role: "alert", hidden: true });
  let shown = null;

  function update(run) {
    const error = run?.error ?? null;
    if (!error && !(run && (run.id !== shown?.run || run.state === "running"))) return;
    const key = error && JSON.stringify([run.id, error]);
    if (key === (shown?.key ?? null)) return;
    shown = error && { key, run: run.id };
    element.hidden = !error;
    element.replaceChildren(...(error ? describe(run, error) : []));
  }
  return { element, update };
}

function describe(run, { text, op, device, site }) {
  const facts = [op && ["op", op], device && ["device", device], site && ["written in", site]].filter(Boolean);
  return [
    h("div", { class: "wb-alert-head" }, icon("failed"), `${run.name} failed at step ${run.step}`),
    facts.length > 0 && h("dl", {}, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "wb-code" }, value)))),
    h("pre", { class: "wb-code", tabindex: 0, "aria-label": "text of the error" }, text),
  ].filter(Boolean);
}

// The newest notice, until it is dismissed.
export function noticeLine() {
  const text = h("span", {});
  const status = h("div", { role: "status" }, text);
  const close = h("button", { class: "wb-small", "aria-label": "dismiss the notice", onclick: dismiss }, "Dismiss");
  const element = h("div", { class: "wb-notice", hidden: true }, status, close);
  let shown = null;
  let dismissed = null;

  function dismiss() {
    dismissed = shown;
    element.hidden = true;
    text.replaceChildren();
  }
  function update(notice) {
    if (!notice || notice.id === shown || notice.id === dismissed) return;
    shown = notice.id;
    element.hidden = false;
    element.classList.toggle("wb-is-error", notice.kind === "error");
    text.replaceChildren(icon(notice.kind === "error" ? "failed" : "note"), notice.text);
  }
  return { element, update };
}
