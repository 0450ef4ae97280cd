// The columns of the spans as a table, for those who want to read or sort them.
import { h } from "../draw/dom.js";
import { percent, time } from "./words.js";

const swatch = (spans, i) => h("span", { class: `wb-timeline-swatch wb-${spans.kinds[i]}`, title: spans.kinds[i] });

// "fused_all_reduce, within fused_update": its time is not the op's, too.
function name(spans, i) {
  const outer = spans.outer.get(i);
  return outer === undefined ? spans.name(i) : `${spans.name(i)}, within ${spans.name(outer)}`;
}

export const COLUMNS = [
  { name: "op", of: name, symbol: swatch },
  { name: "device", of: (spans, i) => spans.where(i) },
  { name: "thread", of: (spans, i) => spans.thread(i), numeric: true, falling: true },
  { name: "start", of: (spans, i) => spans.start[i], text: (spans, i) => time(spans.start[i]), numeric: true },
  {
    name: "duration",
    of: (spans, i) => spans.own(i),
    text: (spans, i) => time(spans.own(i)),
    numeric: true,
    falling: true,
  },
  {
    name: "share",
    of: (spans, i) => spans.own(i),
    text: (spans, i) => percent(spans.share(i)),
    numeric: true,
    falling: true,
  },
];
