// Small shapes beside words: the state of a run and what a button does are never told by colour alone.
import { s } from "./dom.js";

const SHAPES = {
  ready: "M6 2a4 4 0 1 0 .01 0zM6 3.5a2.5 2.5 0 1 1 -.01 0z",
  running: "M3 1.5L10.5 6L3 10.5z",
  paused: "M2.5 2h2.5v8h-2.5zM7 2h2.5v8h-2.5z",
  stopped: "M2.5 2.5h7v7h-7z",
  done: "M1.5 6.5L3 5L5 7L9.5 2L11 3.5L5 10z",
  failed: "M3 1.5L6 4.5L9 1.5L10.5 3L7.5 6L10.5 9L9 10.5L6 7.5L3 10.5L1.5 9L4.5 6L1.5 3z",
  nan: "M6 1L11.5 11H.5zM5.3 4.5h1.4v3.2h-1.4zM5.3 8.5h1.4v1.3h-1.4z",
  step: "M1.5 1.5L7.5 6L1.5 10.5zM8.5 1.5h2v9h-2z",
  drop: "M5 1h2v5h3L6 10.5L2 6h3z",
  save: "M1.5 1.5h7l2 2v7h-9zM3.5 2.5v2.5h4v-2.5zM3.5 7v2.5h5v-2.5z",
  note: "M6 1a5 5 0 1 0 .01 0zM5.3 5h1.4v4h-1.4zM5.3 2.8h1.4v1.4h-1.4z",
};

export function icon(name) {
  return s(
    "svg",
    { class: "wb-icon", width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" },
    s("path", { d: SHAPES[name] ?? SHAPES.ready, "fill-rule": "evenodd" }),
  );
}
