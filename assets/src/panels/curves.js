// Fetched scalars over the steps, of several runs on each other, and how fast the steps were.
import { Choice, listed, seriesNames } from "../curves/runs.js";
import { legend } from "../curves/legend.js";
import { rateSpec, seriesSpec, trouble } from "../curves/spec.js";
import { chart } from "../draw/chart.js";
import { h } from "../draw/dom.js";
import { seconds } from "../draw/numbers.js";
import { frame, keysOf } from "../draw/panel.js";

const EMPTY = "Here you will see the curves of the fetched values as soon as a run has made its first steps.";
const RATE = "steps per second";

export function curves(store) {
  const choice = new Choice();
  const charts = new Map(); // by series
  const { slider, log, whole, tools } = settings(draw);
  const { element, body, note, saving } = frame({
    name: "curves",
    title: "Curves",
    drawings: shownCharts,
    keys: () => keysOf([...runList.element.children].filter((row) => row.querySelector("input").checked)),
    subject: () => store.subject,
    tools,
  });
  const empty = h("p", { class: "wb-empty" }, EMPTY);
  const runList = legend("runs", ticked(choice.runs));
  const seriesList = legend("series", ticked(choice.series));
  const grid = h("div", { class: "wb-curve-grid" });
  const rate = titled(RATE, 84, point);
  const content = h("div", {}, runList.element, seriesList.element, grid, rate.element);
  body.append(empty, content);

  function ticked(map) {
    return (id, on) => {
      map.set(id, on);
      draw();
    };
  }

  function update(kinds) {
    if (kinds.has("state")) showNote();
    if (kinds.has("curves") || kinds.has("theme") || kinds.has("state")) showRuns(kinds);
  }

  // A state comes ten times a second and seldom changes what is drawn.
  let drawn = "";
  function showRuns(kinds) {
    const runs = listed(store, choice);
    const key = JSON.stringify(runs.map(({ id, label, shown }) => [id, label, shown]));
    const changed = key !== drawn || kinds.has("curves") || kinds.has("theme");
    drawn = key;
    if (changed) draw();
    else runList.update(runs.map(entry));
  }

  function draw() {
    const runs = listed(store, choice);
    const names = seriesNames(runs);
    empty.hidden = runs.length > 0;
    content.hidden = !runs.length;
    for (const tool of tools) tool.hidden = !names.length;
    saving(false);
    if (!runs.length) return;
    runList.update(runs.map(entry));
    seriesList.element.hidden = names.length < 2;
    seriesList.update(names.map((name, i) => ({ id: name, label: name, shown: choice.showsSeries(name, i) })));
    drawSeries(
      names.filter((name, i) => choice.showsSeries(name, i)),
      runs,
    );
    const rates = rateSpec(runs);
    rate.element.hidden = !rates.series.length;
    if (rates.series.length) rate.figure.draw(rates);
    saving(shownCharts().length > 0);
  }

  function drawSeries(names, runs) {
    for (const [name, { element: old, figure }] of charts) {
      if (names.includes(name)) continue;
      figure.destroy();
      old.remove();
      charts.delete(name);
    }
    for (const name of names) {
      if (!charts.has(name)) charts.set(name, titled(name, 170, point));
      const each = charts.get(name);
      if (!each.element.parentNode) grid.append(each.element);
    }
    const how = { smoothing: Number(slider.value), log: log.checked, whole: whole.checked };
    for (const name of names) charts.get(name).show(seriesSpec(name, runs, how));
    whole.parentNode.hidden = !whole.checked && names.every((name) => !charts.get(name).isCut);
  }

  // The crosshair stands at the same step in all charts.
  function point(step) {
    for (const { figure } of [...charts.values(), rate]) figure.point(step);
  }

  function showNote() {
    const run = store.state?.run;
    const words = run ? timeLeft(run) : "";
    if (note.textContent !== words) note.textContent = words;
  }

  function shownCharts() {
    const all = [...charts].map(([title, { figure }]) => ({ title, element: figure.svg }));
    return rate.element.hidden ? all : [...all, { title: RATE, element: rate.figure.svg }];
  }

  function destroy() {
    for (const { figure } of [...charts.values(), rate]) figure.destroy();
  }
  return { element, update, destroy };
}

const timeLeft = ({ state, eta }) => (state === "running" && eta != null ? `${seconds(eta)} left` : "");

const entry = (run) => ({ ...run, note: trouble(run) });

// A chart with its name above, and below it what has left its frame.
function titled(name, height, onhover) {
  const figure = chart({ height, onhover });
  const away = h("p", { class: "wb-away", role: "status", hidden: true });
  const titledFigure = {
    figure,
    isCut: false,
    element: h("div", { class: "wb-curve" }, h("h4", {}, name), figure.element, away),
    show,
  };

  function show(spec) {
    figure.draw(spec);
    const words = spec.away.length ? `▲ outside the frame: ${spec.away.join("; ")}` : "";
    if (away.textContent !== words) away.textContent = words;
    away.hidden = !words;
    titledFigure.isCut = Boolean(words);
  }
  return titledFigure;
}

function settings(changed) {
  const slider = h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: "0", oninput: changed });
  const log = h("input", { type: "checkbox", onchange: changed });
  const whole = h("input", { type: "checkbox", onchange: changed });
  const all = "values far from all others too, however flat that makes the rest";
  const title = "exponential moving average; the curve itself stays visible behind it";
  return {
    slider,
    log,
    whole,
    tools: [
      h("label", { class: "wb-tool", title }, "smoothing", slider),
      h("label", { class: "wb-tool" }, log, "log scale"),
      h("label", { class: "wb-tool", title: all }, whole, "whole range"),
    ],
  };
}
