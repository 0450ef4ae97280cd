// Mean, spread and histogram of what a node wrote, asked from the kernel when the button is pressed.
import { h, s } from "../draw/dom.js";
import { count, number, shape } from "../draw/numbers.js";

const [WIDTH, HEIGHT] = [220, 44];

// `step`: of the step with the first NaN, to have the numbers of that one; null for the newest.
export async function statistics(store, model, node, into, step = null) {
  const show = (...parts) => {
    into.replaceChildren(...parts);
    into.scrollIntoView({ block: "nearest" });
  };
  show(h("p", { class: "wb-g-facts", role: "status" }, "asking the kernel …"));
  try {
    const answer = await store.ask({ type: "statistics", graph: model.message.id, node, step });
    show(...shown(answer, model.devices));
  } catch (error) {
    show(h("p", { class: "wb-g-failed" }, error.message));
  }
}

export function shown({ error, note, values = [] }, devices) {
  const parts = [];
  if (error) parts.push(h("p", { class: "wb-g-failed" }, error));
  if (note) parts.push(h("p", { class: "wb-g-facts" }, note));
  parts.push(...values.map((each) => value(each, devices)));
  if (!parts.length) parts.push(h("p", { class: "wb-g-facts" }, "no values"));
  return parts;
}

// `device` is a position, as in the graph.
function value(each, devices) {
  const bad = (each.nan ?? 0) + (each.inf ?? 0);
  const facts = ["mean", "std", "min", "max"].map((name) => [name, number(each[name])]);
  const rows = [...facts, ["zeros", number(each.zeros)], ["NaN / Inf", `${number(each.nan)} / ${number(each.inf)}`]];
  return h(
    "div",
    { class: bad ? "wb-g-value wb-g-bad" : "wb-g-value" },
    h(
      "div",
      {},
      h("span", { class: "wb-code" }, each.name),
      h(
        "span",
        { class: "wb-g-facts" },
        ` ${devices[each.device] ?? each.device ?? ""} ${each.dtype} ${shape(each.shape)}`,
      ),
    ),
    bad ? h("p", { class: "wb-g-failed" }, `${count(bad)} ${bad === 1 ? "value is" : "values are"} not finite`) : null,
    h("dl", {}, ...rows.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    histogram(each),
  );
}

export function histogram({ name, histogram: { edges, counts } = {} }) {
  if (!counts?.length) return null;
  const most = Math.max(...counts, 1);
  const step = WIDTH / counts.length;
  const bars = Array.from(counts, (n, k) => {
    const height = n ? Math.max(1, (n / most) * HEIGHT) : 0;
    return s("rect", { x: k * step, y: HEIGHT - height, width: Math.max(0.5, step - 1), height });
  });
  const fullest = counts.indexOf(Math.max(...counts));
  const between = (a, b) => `${number(edges.at(a))} and ${number(edges.at(b))}`;
  const text = `histogram of ${name}, between ${between(0, -1)}, most between ${between(fullest, fullest + 1)}`;
  return h(
    "div",
    { class: "wb-g-histogram" },
    s(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        width: "100%",
        height: HEIGHT,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": text,
      },
      ...bars,
    ),
    h("div", {}, h("span", {}, number(edges[0])), h("span", {}, number(edges.at(-1)))),
  );
}
