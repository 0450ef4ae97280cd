// What went wrong, and what the kernel has to say.
import { h } from "../draw/dom.js";
import { icon } from "../draw/icons.js";
import { count } from "../draw/numbers.js";

// The error of a failed run; it stays until another run, or this one again, goes on.
// If that was a NaN, `show(nan)` leads to where it comes from.
export function alertBox(show) {
  const element = h("div", { class: "wb-alert", role: "alert", hidden: true });
  let shown = null;

  function update(run) {
    const error = run?.error ?? null;
    if (!error && !(run && (run.id !== shown?.run || run.state === "running"))) return;
    const key = error && JSON.stringify([run.id, error, run.nan]);
    if (key === (shown?.key ?? null)) return;
    shown = error && { key, run: run.id };
    element.hidden = !error;
    element.replaceChildren(...(error ? describe(run, error, show) : []));
  }
  return { element, update };
}

function describe(run, { text, op, device, site }, show) {
  return [
    h("div", { class: "wb-alert-head" }, icon("failed"), `${run.name} failed after step ${run.step}`),
    facts([
      ["op", op],
      ["device", device],
      ["written in", site],
    ]),
    h("pre", { class: "wb-code", tabindex: 0, "aria-label": "text of the error" }, text),
    endsIt(run) && lead(run.nan, show),
  ].filter(Boolean);
}

// Whether the first NaN of a run is what ended it: then the error says all there is to say.
const endsIt = ({ nan, error }) => Boolean(nan && error?.text.startsWith(`${nan.title}:`));

// The first NaN of a run that goes on, or has ended, as if nothing were the matter: where it comes from, and a button
// that leads there by `show(nan)`: to the node, and to what the step was fed.
export function nanBox(show) {
  const element = h("div", { class: "wb-alert wb-is-nan", role: "alert", hidden: true });
  let shown = null;

  function update(run) {
    const nan = run?.nan && !endsIt(run) ? run.nan : null;
    const key = nan && JSON.stringify([run.id, nan]);
    if (key === shown) return;
    shown = key;
    element.hidden = !nan;
    element.replaceChildren(...(nan ? origin(nan, show) : []));
  }
  return { element, update };
}

function origin(nan, show) {
  const { title, reason, op, device, site } = nan;
  return [
    h("div", { class: "wb-alert-head" }, icon("nan"), `${title}: ${reason}`),
    facts([
      ["op", op],
      ["device", device],
      ["written in", site],
    ]),
    lead(nan, show),
  ].filter(Boolean);
}

function lead(nan, show) {
  const { op, node, step } = nan;
  const words = node != null ? `Show ${op} in the graph` : `Show what step ${count(step)} was fed`;
  const title = `and, in Feeds, what step ${count(step)} was fed`;
  return h("div", {}, h("button", { class: "wb-small", title, onclick: () => show(nan) }, words));
}

function facts(all) {
  const known = all.filter(([, value]) => value);
  return (
    known.length > 0 &&
    h(
      "dl",
      {},
      known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "wb-code" }, value))),
    )
  );
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
