// What anywidget calls: `initialize` once per model, `render` once per view of it.
import { page } from "./app.js";
import { Store } from "./store.js";

const stores = new WeakMap();

function storeOf(model) {
  if (!stores.has(model)) stores.set(model, new Store(model));
  return stores.get(model);
}

function initialize({ model }) {
  const store = storeOf(model);
  store.send({ type: "hello" });
  return () => store.close();
}

function render({ model, el }) {
  return page(storeOf(model), el);
}

export default { initialize, render };
