// What anywidget calls: `initialize`, once per page, and `render`, once per view. Every view asks for everything and keeps its own copy: anywidget hands
// each call another stand-in for the model, so nothing can be found by it.
import { page } from "./app.js";
import { h } from "./draw/dom.js";
import { drawGivenUp } from "./kernel/given_up.js";
import { Store } from "./store.js";

function initialize({ model }) {
  return drawGivenUp(model.widget_manager);
}

function render({ model, el }) {
  const store = new Store(model);
  const end = page(store, el);
  const hides = h("style", {}, model.get("_hides")); // the picture that stands beside the page while there is none
  el.append(hides);
  store.greet();
  return () => {
    end();
    hides.remove();
    store.close();
  };
}

export default { initialize, render };
