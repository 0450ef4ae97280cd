import { frame } from "../draw/panel.js";

export function graph(store) {
  const { element } = frame({ name: "graph", title: "graph" });
  return { element, update() {} };
}
