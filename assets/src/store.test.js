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

test("of a run that ended before its first step nothing is shown but what is its own", ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const store = new Store({ on() {}, off() {}, send() {} });
  const state = (id, state) => store.take({ type: "state", runs: [{ id }], run: { id, state }, controls: {} });
  const graph = (id) => store.take({ type: "graph", id, node: { label: [], device: [] }, devices: [] });
  state(1, "running");
  graph(1);
  store.take({ type: "sample", step: 14, graph: 1 });
  store.take({ type: "samples", step: [14] });
  store.take({ type: "fed", step: 14, graph: 1, applied: false }); // asked for before that step was applied
  assert.equal(store.newestFed, null);
  store.take({ type: "fed", step: 100, graph: 1 });
  state(1, "done");
  assert.deepEqual([store.sample.step, store.newestFed.step], [14, 100]);
  state(2, "running"); // one of its own will come before long
  graph(2);
  assert.equal(store.sample.step, 14);
  state(2, "failed");
  assert.deepEqual([store.sample, store.samples, store.newestFed], [null, null, null]);
  store.take({ type: "fed", step: 1, graph: 2 });
  assert.equal(store.newestFed.step, 1);
  store.close();
});
