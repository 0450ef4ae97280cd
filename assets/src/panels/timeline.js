import { frame } from "../draw/panel.js";

export function timeline(store) {
  const { element } = frame({ name: "timeline", title: "timeline" });
  return { element, update() {} };
}
