import { frame } from "../draw/panel.js";

export function curves(store) {
  const { element } = frame({ name: "curves", title: "curves" });
  return { element, update() {} };
}
