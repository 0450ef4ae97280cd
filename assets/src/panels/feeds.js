// Which rows of the batch went to which device, what was in them, and how many there were over time.
import { chart, stacked } from "../draw/chart.js";
import { deviceColor } from "../draw/colors.js";
import { h, s } from "../draw/dom.js";
import { count } from "../draw/numbers.js";
import { emptyLine, frame } from "../draw/panel.js";
import { splitBars } from "../feeds/split_bar.js";
import { splits, summary } from "../feeds/split.js";
import { feedTable, previewParts } from "../feeds/table.js";

const EMPTY = "Here you will see which rows of the batch each device was fed, and what was in them.";
const ROWS = "rows per device";

export function feeds(store) {
  const newest = h("button", { class: "wb-small", hidden: true, onclick: () => store.showFedIn(null) }, "Newest step");
  const bars = s("svg", { class: "wb-split", role: "img" });
  const { element, body, note, saving } = frame({
    name: "feeds",
    title: "Feeds",
    drawings: () => [
      { element: bars },
      ...previewParts(table),
      ...(overTime.hidden ? [] : [{ title: ROWS, element: over.svg }]),
    ],
    keys: () => shown().feeds.devices.map((text, i) => ({ symbol: spot(deviceColor(i)), text })),
    subject: () => store.subject,
    tools: [newest],
  });
  const empty = emptyLine(EMPTY);
  const table = h("div", { class: "wb-feed-scroll", tabindex: 0, role: "group", "aria-label": "feeds of each device" });
  const over = chart({ height: 96 });
  const overTime = h("div", { class: "wb-feed-time" }, h("h4", {}, ROWS), over.element);
  body.append(empty.element, bars, table, overTime);

  const shown = () => store.shownFed ?? store.sample;

  function update(kinds) {
    if (kinds.has("state")) empty.update(store.state);
    const resized = kinds.has("theme");
    const fed = ["sample", "samples", "fed"].some((kind) => kinds.has(kind));
    if (fed || resized) showSample(shown(), resized && !fed);
    if (kinds.has("scopes") || resized) showTime(store.scopes);
  }

  function showSample(sample, resized) {
    const fed = sample?.feeds;
    newest.hidden = !store.chosenFed;
    const there = Boolean(fed?.names?.length && fed.devices?.length);
    empty.element.hidden = there;
    saving(there);
    for (const part of [bars, table]) part.toggleAttribute("hidden", !there);
    note.textContent = there ? summary(sample) : "";
    if (!there) return;
    splitBars(bars, splits(fed), fed.devices, Math.max(body.clientWidth - 16, 120));
    if (!resized) table.replaceChildren(feedTable(fed));
  }

  function showTime(scopes) {
    const { step = [], rows = [] } = scopes?.feeds ?? {};
    overTime.hidden = step.length < 2;
    if (overTime.hidden) return;
    const names = rows.map((_, i) => scopes.devices?.[i] ?? `device ${i}`);
    const series = stacked(
      step,
      rows,
      names,
      rows.map((_, i) => deviceColor(i)),
    );
    over.draw({ label: "rows fed to each device", series, zero: true, yFormat: count });
  }

  return { element, update, destroy: over.destroy };
}

const spot = (fill) => s("svg", { width: 11, height: 11 }, s("rect", { width: 11, height: 11, fill }));
