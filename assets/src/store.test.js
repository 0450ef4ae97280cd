import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "./store.js";

test("a page says hello until everything has come", ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const sent = [];
  const model = { on() {}, off() {}, send: (message) => sent.push(message.type) };
  const store = new Store(model);
  const hellos = (seconds) => {
    sent.length = 0;
    for (let tenth = 0; tenth < 10 * seconds; tenth++) mock.timers.tick(100);
    return sent.length;
  };
  store.greet();
  assert.deepEqual(sent, ["hello"]);
  assert.deepEqual([hellos(0.9), hellos(0.2), hellos(2), hellos(60)], [0, 1, 1, 5]);
  store.take({ type: "state", runs: [] }); // news that any page gets
  assert.equal(hellos(20), 1);
  store.take({ type: "graph", node: { label: [], device: [] }, devices: [] });
  store.take({ type: "scopes" });
  assert.equal(hellos(60), 0);
  const other = new Store(model);
  other.greet();
  other.close();
  assert.equal(hellos(60), 0);
});
