// The columns of the spans as a table, for those who want to read or sort them.
import { h } from "../draw/dom.js";
import { percent, time } from "./words.js";

const swatch = (spans, i) => h("span", { class: `wb-timeline-swatch wb-${spans.kinds[i]}`, title: spans.kinds[i] });

export const COLUMNS = [
  { name: "op", of: (spans, i) => spans.name(i), symbol: swatch },
  { name: "device", of: (spans, i) => spans.where(i) },
  { name: "thread", of: (spans, i) => spans.thread(i), numeric: true, falling: true },
  { name: "start", of: (spans, i) => spans.start[i], text: (spans, i) => time(spans.start[i]), numeric: true },
  {
    name: "duration",
    of: (spans, i) => spans.lasts(i),
    text: (spans, i) => time(spans.lasts(i)),
    numeric: true,
    falling: true,
  },
  {
    name: "share",
    of: (spans, i) => spans.lasts(i),
    text: (spans, i) => percent(spans.share(i)),
    numeric: true,
    falling: true,
  },
];
