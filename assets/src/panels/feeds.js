import { frame } from "../draw/panel.js";

export function feeds(store) {
  const { element } = frame({ name: "feeds", title: "feeds" });
  return { element, update() {} };
}
