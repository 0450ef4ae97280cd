// The page of one view: header and controls above, the panels below; each is drawn at most once per frame.
import { h } from "./draw/dom.js";
import { controls } from "./panels/controls.js";
import { curves } from "./panels/curves.js";
import { feeds } from "./panels/feeds.js";
import { graph } from "./panels/graph.js";
import { header } from "./panels/header.js";
import { lost } from "./panels/lost.js";
import { scopes } from "./panels/scopes.js";
import { timeline } from "./panels/timeline.js";

const PANELS = [lost, header, controls, graph, feeds, curves, scopes, timeline];
const KINDS = [
  "state",
  "graph",
  "sample",
  "samples",
  "fed",
  "scopes",
  "curves",
  "selected",
  "theme",
  "presence",
  "clicks",
];

export function page(store, el) {
  const panels = PANELS.map((make) => make(store));
  const root = h("div", { class: "wb-dashboard", role: "region", "aria-label": "workbench dashboard" });
  root.append(...panels.map((panel) => panel.element));
  // JupyterLab's command-mode keys act on what has the focus: "d d" would delete the cell.
  root.addEventListener("keydown", (event) => mine(event) && event.stopPropagation());
  root.addEventListener("wb-keep", ({ detail: { name, data } }) => store.send({ type: "keep", name }, [data]));
  el.append(root);

  const due = new Set(KINDS);
  let frame = 0;
  const draw = () => {
    frame = 0;
    const kinds = new Set(due);
    due.clear();
    root.classList.toggle("wb-lost", store.presence.lost !== null);
    for (const panel of panels) panel.update(kinds);
  };
  const later = (kind) => {
    due.add(kind);
    frame ||= requestAnimationFrame(draw);
  };
  const parts = [root, ...panels.map((panel) => panel.element)];
  const ended = [store.listen(later), watchTheme(() => later("theme")), watchSize(parts, () => later("theme"))];
  draw();
  return () => {
    cancelAnimationFrame(frame);
    for (const end of ended) end();
    for (const panel of panels) panel.destroy?.();
    root.remove();
  };
}

const EDITING = ["a", "c", "v", "x", "y", "z"];

// With Ctrl or Cmd a key is JupyterLab's ("save the notebook"), if nothing here used it and no field is edited with it.
function mine({ ctrlKey, metaKey, key, target, defaultPrevented }) {
  if (!(ctrlKey || metaKey) || defaultPrevented) return true;
  return target.matches("input, textarea") && EDITING.includes(key.toLowerCase());
}

// A theme comes as style sheets, which take a moment; until they are there, widths and colours are wrong.
// Where front ends say which one it is: JupyterLab, VS Code, Colab.
const THEMES = ["data-jp-theme-name", "data-jp-theme-light", "data-vscode-theme-kind", "theme", "class", "style"];
const THEME_MS = [0, 250, 1000];

function watchTheme(changed) {
  let timers = [];
  const observer = new MutationObserver(() => {
    timers.forEach(clearTimeout);
    timers = THEME_MS.map((wait) => setTimeout(changed, wait));
  });
  observer.observe(document.body, { attributes: true, attributeFilter: THEMES });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: THEMES });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    dark.removeEventListener("change", changed);
    timers.forEach(clearTimeout);
  };
}

function watchSize(elements, changed) {
  const observer = new ResizeObserver(changed);
  for (const element of elements) observer.observe(element);
  return () => observer.disconnect();
}
