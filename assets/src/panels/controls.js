import { frame } from "../draw/panel.js";

export function controls(store) {
  const { element } = frame({ name: "controls", title: "controls" });
  return { element, update() {} };
}
