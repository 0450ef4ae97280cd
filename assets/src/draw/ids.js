// Ids of elements. A page may hold several dashboards, each with a copy of this module: their ids differ, too.
const own = [...crypto.getRandomValues(new Uint32Array(2))].map((part) => part.toString(36)).join("");
let count = 0;

// An id no element has yet: "wb-setting-1x9k3…-1".
export function newId(kind) {
  return `wb-${kind}-${own}-${++count}`;
}
