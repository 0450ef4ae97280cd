import { frame } from "../draw/panel.js";

export function scopes(store) {
  const { element } = frame({ name: "scopes", title: "scopes" });
  return { element, update() {} };
}
