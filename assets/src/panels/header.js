// What is run, on what, and where it stands; errors and notices of the kernel.
import { h } from "../draw/dom.js";
import { icon } from "../draw/icons.js";
import { count } from "../draw/numbers.js";
import { counter, deviceList, named, stateWords } from "../header/texts.js";
import { alertBox, nanBox, noticeLine } from "../header/messages.js";

export function header(store) {
  const subject = h("div", { class: "wb-subject" });
  const pill = h("span", { class: "wb-pill" });
  const announced = h("span", { class: "wb-hidden", "aria-live": "polite" });
  const counters = h("div", { class: "wb-counters" });
  const bar = h("div", { class: "wb-bar" });
  const progress = h("div", { class: "wb-progress", role: "progressbar", "aria-label": "progress of the run" }, bar);
  const last = h("dl", { class: "wb-last", "aria-label": "last values" });
  const alert = alertBox(lead);
  const nan = nanBox(lead);
  const notice = noticeLine();
  const top = h("div", { class: "wb-header-top" }, subject, pill, announced);
  const row = h("div", { class: "wb-header-row" }, counters, last);
  const attributes = { class: "wb-header wb-wide", "aria-label": "what is run" };
  const element = h("section", attributes, top, progress, row, nan.element, alert.element, notice.element);
  const shown = { subject: null, state: null };

  function lead({ node, step }) {
    store.showFedIn(step);
    if (node != null) store.select(node);
    const panel = node != null ? ".wb-graph" : ".wb-feeds";
    element.closest(".wb-dashboard")?.querySelector(panel)?.scrollIntoView({ block: "nearest" });
  }

  function update(kinds) {
    if (!kinds.has("state")) return;
    const { state } = store;
    showSubject(state?.subject);
    showState(state);
    showCounters(state?.run);
    showProgress(state?.run);
    showLast(state?.run?.last ?? {});
    nan.update(state?.run ?? null);
    alert.update(state?.run ?? null);
    notice.update(state?.notice ?? null);
  }

  // Rebuilt only when it changed: it does not flicker, and can be selected with the mouse.
  function showSubject(now) {
    const key = JSON.stringify(now ?? null);
    if (key === shown.subject) return;
    shown.subject = key;
    if (!now) return subject.replaceChildren(h("span", { class: "wb-faint" }, "waiting for the kernel …"));
    const devices = now.devices ?? [];
    subject.replaceChildren(
      h("h2", {}, now.name || "unnamed"),
      h("span", { class: "wb-tag" }, now.kind),
      h(
        "span",
        { class: "wb-faint", title: devices.join("\n") },
        [deviceList(devices), now.strategy].filter(Boolean).join(" · "),
      ),
    );
  }

  // The state is announced when it changes; the counter beside it is not, while it runs.
  function showState(state) {
    const run = state?.run;
    const busy = state?.controls?.busy;
    const words = busy || stateWords(run) || (state ? "no run yet" : "");
    const key = `${run?.id} ${words} ${run?.state === "running" ? "" : run?.step}`;
    if (key === shown.state) return;
    const first = shown.state === null;
    shown.state = key;
    pill.hidden = !words;
    const kind = busy ? "ready" : run?.nan && run.state !== "failed" ? "nan" : (run?.state ?? "ready");
    pill.className = `wb-pill wb-is-${kind}`;
    pill.replaceChildren(icon(kind), words);
    if (!first && words) announced.textContent = run ? `${run.name}: ${words} after step ${count(run.step)}` : words;
  }

  function showCounters(run) {
    if (!run) return counters.replaceChildren(store.state ? "press Run, or start a run in a cell" : "");
    const parts = counter(run).map(([text, title]) => h("span", { title }, text));
    counters.replaceChildren(...parts);
  }

  function showProgress(run) {
    const steps = run?.steps;
    progress.hidden = !steps;
    if (!steps) return;
    const part = Math.min(1, run.step / steps);
    bar.style.width = `${part * 100}%`;
    progress.className = `wb-progress wb-is-${run.nan ? "nan" : run.state}`;
    progress.setAttribute("aria-valuenow", Math.floor(part * 100));
    progress.setAttribute("aria-valuetext", `step ${count(run.step)} of ${count(steps)}`);
  }

  function showLast(values) {
    last.replaceChildren(
      ...Object.entries(values).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, named(value)))),
    );
  }

  return { element, update };
}
