// The crosshair of a chart: a line at a step, a dot on every series and a small table of their values.
import { h, s } from "./dom.js";
import { nearest } from "./scale.js";
import { swatch } from "./swatch.js";

const REACH = 5; // pixels within which a mark is named
const ROWS = 12; // of the table, at most

export function crosshair({ element, svg, cursor, readout, spoken, onhover }) {
  let data = null;
  let plan = null;
  let step = null;

  function point(wanted) {
    step = wanted;
    render();
  }
  function move(wanted) {
    point(wanted);
    onhover(wanted);
  }
  function render() {
    const atStep = step === null || !plan ? null : readings(data, plan, step);
    readout.hidden = !atStep;
    cursor.replaceChildren(...(atStep ? drawn(atStep, plan) : []));
    if (!atStep) return;
    readout.replaceChildren(...table(atStep, data));
    place(readout, atStep.px, plan);
  }

  const inside = (event) => {
    if (!plan) return;
    const { left } = svg.getBoundingClientRect();
    const part = (event.clientX - left - plan.box.left) / (plan.box.right - plan.box.left);
    const at = plan.xRange[0] + Math.min(1, Math.max(0, part)) * (plan.xRange[1] - plan.xRange[0]);
    move(at);
  };
  const leave = () => move(null);
  const key = (event) => {
    const next = plan && keyed(event, data, step ?? plan.xRange[1]);
    if (next === undefined || !plan) return;
    event.preventDefault();
    move(next);
    spoken.textContent = next === null ? "" : readout.innerText.replaceAll("\n", ", ");
  };
  svg.addEventListener("pointermove", inside);
  svg.addEventListener("pointerleave", leave);
  element.addEventListener("keydown", key);
  element.addEventListener("blur", leave);

  return {
    point,
    show(newData, newPlan) {
      [data, plan] = [newData, newPlan];
      render();
    },
    destroy() {
      svg.removeEventListener("pointermove", inside);
      svg.removeEventListener("pointerleave", leave);
      element.removeEventListener("keydown", key);
      element.removeEventListener("blur", leave);
    },
  };
}

// The step that a key leads to, null for none, undefined when the key means nothing here.
function keyed(event, { series }, step) {
  if (event.key === "Escape") return null;
  const column = series.reduce((best, { x }) => (x.length > best.length ? x : best), []);
  if (!column.length) return undefined;
  const i = nearest(column, step);
  const jump = event.shiftKey ? Math.ceil(column.length / 20) : 1;
  const last = column.length - 1;
  const target = { ArrowLeft: i - jump, ArrowRight: i + jump, Home: 0, End: last }[event.key];
  return target === undefined ? undefined : column[Math.min(last, Math.max(0, target))];
}

// What every series has at the step; those that end before or begin after it have nothing.
export function readings({ series, marks }, { x, y }, wanted) {
  const near = series.map((one) => ({ one, i: within(one.x, wanted) })).filter(({ i }) => i >= 0);
  if (!near.length) return null;
  const distance = ({ one, i }) => Math.abs(one.x[i] - wanted);
  const closest = near.reduce((best, each) => (distance(each) < distance(best) ? each : best));
  const at = closest.one.x[closest.i];
  const px = x(at);
  const points = near.map(({ one, i }) => ({ one, i, px: x(one.x[i]), py: y(one.y[i]) }));
  const named = marks.flatMap((mark) => {
    const i = nearest(mark.x, wanted);
    const close = i >= 0 && Math.abs(x(mark.x[i]) - px) <= REACH;
    return close ? [mark.text?.(i) ?? mark.label ?? mark.name] : [];
  });
  return { at, px, points, named };
}

function within(column, wanted) {
  const i = nearest(column, wanted);
  if (i < 0) return -1;
  const spacing = column.length > 1 ? (column[column.length - 1] - column[0]) / (column.length - 1) : 1;
  return Math.abs(column[i] - wanted) <= spacing * 1.5 || (wanted >= column[0] && wanted <= column[column.length - 1])
    ? i
    : -1;
}

function drawn({ px, points }, { box }) {
  const inside = (py) => Math.min(box.bottom, Math.max(box.top, py));
  const dots = points
    .filter(({ py }) => Number.isFinite(py))
    .map((dot) => s("circle", { cx: dot.px, cy: inside(dot.py), r: 3, fill: dot.one.color }));
  return [s("path", { class: "wb-cursor-line", d: `M${px} ${box.top}V${box.bottom}` }), ...dots];
}

function table({ at, points, named }, { xName, xFormat, yFormat, reads }) {
  const value = ({ one, i }) => one.value?.(i) ?? yFormat((one.values ?? one.y)[i]);
  const rows = points
    .slice(0, ROWS)
    .map((each) =>
      h(
        "div",
        { class: "wb-readout-row" },
        swatch(each.one.color, each.one.dash),
        h("span", {}, each.one.name),
        h("b", {}, value(each)),
      ),
    );
  const more = points.length > ROWS ? [h("div", {}, `and ${points.length - ROWS} more`)] : [];
  return [
    h("div", { class: "wb-readout-head" }, `${xName} ${xFormat(at)}${reads ? `: ${reads}` : ""}`),
    ...rows,
    ...more,
    ...named.map((text) => h("div", {}, text)),
  ];
}

// Right of the line, or left of it where there is more room; never out of the chart.
function place(readout, px, { width, box }) {
  const wide = readout.offsetWidth;
  const fits = px + 10 + wide <= width || px < width / 2;
  const left = fits ? Math.min(px + 10, width - wide) : px - 10 - wide;
  readout.style.left = `${Math.max(0, left)}px`;
  readout.style.top = `${box.top}px`;
}
