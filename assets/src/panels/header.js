import { frame } from "../draw/panel.js";

export function header(store) {
  const { element } = frame({ name: "header", title: "header" });
  return { element, update() {} };
}
