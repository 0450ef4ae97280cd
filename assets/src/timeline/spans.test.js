import assert from "node:assert/strict";
import { test } from "node:test";
import { covered, Spans } from "./spans.js";
import { decoded, graphMessage, sampleMessage } from "../../fixtures/timeline.js";

const graph = decoded(graphMessage({ devices: 4, layers: 3 }));
const spans = new Spans(decoded(sampleMessage({ devices: 4, layers: 3 })), graph);

// Spans by hand: [start, end, collective].
const spansOf = (rows, more = {}) =>
  new Spans({
    step: 1,
    seconds: 100e-6,
    graph: 7,
    labels: ["conv2d"],
    ...more,
    spans: {
      start: Float32Array.from(rows, ([start]) => start),
      end: Float32Array.from(rows, ([, end]) => end),
      node: Int32Array.from(rows, () => -1),
      device: Int32Array.from(rows, ([, , all]) => (all ? -1 : 0)),
      thread: new Int32Array(rows.length),
      label: new Int32Array(rows.length),
      collective: Uint8Array.from(rows, ([, , all]) => all ?? 0),
    },
  });

test("a span that stands for several nodes names them all", () => {
  assert.equal(spans.name(0), "mul + elementwise_add + relu");
  assert.deepEqual(spans.nodes(0), [0, 1, 2]);
  assert.deepEqual(spans.layers(0), ["fc_0"]);
  assert.equal(spans.bytes(0), 1024 * (1 + 2 + 3));
});

test("waits are spans of their own: no node, no longest op, and what they wait for as their name", () => {
  const waiting = new Spans(decoded(sampleMessage({ waits: true })), decoded(graphMessage()));
  const waits = [...waiting.kinds.keys()].filter((i) => waiting.kinds[i] === "wait");
  assert.ok(waits.length > 0);
  for (const i of waits) {
    assert.match(waiting.name(i), /^wait for op 'relu_grad' on cpu:\d$/);
    assert.deepEqual(waiting.nodes(i), []);
    assert.deepEqual(waiting.devicesOf(i), [waiting.device(i)]);
  }
  const all = spansOf(
    [
      [0, 90],
      [0, 10],
    ],
    { labels: ["conv2d"] },
  );
  all.sample.spans.wait = Uint8Array.of(1, 0);
  assert.equal(new Spans(all.sample).longest(), 1);
});

test("a collective tells how long each device's part lay there", () => {
  const i = spans.kinds.indexOf("collective");
  const waits = spans.waits(i);
  assert.deepEqual(
    waits.map(({ device }) => device),
    [0, 1, 2, 3],
  );
  assert.equal(Math.min(...waits.map(({ waited }) => waited)), 0); // the last one waits for nobody
  assert.ok(waits.every(({ at, waited }) => Math.abs(at + waited - spans.start[i]) < 1e-3));
  assert.deepEqual(spans.waits(0), []);
});

test("every node of a span leads back to it", () => {
  assert.deepEqual(spans.of(2), [0]);
  assert.deepEqual(spans.of(null), []);
  assert.deepEqual(spans.of(9999), []);
});

test("roles come from the graph, collectives from the span", () => {
  const kinds = new Set(spans.kinds);
  assert.deepEqual([...kinds].sort(), ["backward", "collective", "forward", "optimize"]);
  const together = spans.kinds.indexOf("collective");
  assert.equal(spans.name(together), "all_reduce");
  assert.equal(spans.where(together), "all 4 devices");
});

test("without its graph a span has its label, no role and no node", () => {
  const lone = new Spans(decoded(sampleMessage({ devices: 2 })), { ...graph, id: 99 });
  assert.equal(lone.name(0), "mul + elementwise_add + relu");
  const joined = new Spans({ ...lone.sample, labels: ["mul+relu+mul"] });
  assert.equal(joined.name(0), "mul × 2 + relu");
  assert.equal(lone.kinds[0], "other");
  assert.deepEqual(lone.nodes(0), []);
  assert.equal(lone.bytes(0), null);
  assert.equal(lone.where(0), "CPUPlace(0)");
});

test("a collective that not all devices take part in names those that do", () => {
  const across = { node: Int32Array.of(84, 84), device: Int32Array.of(2, 1) };
  const node = graph.node.type.findIndex((type) => graph.tables.type[type] === "all_reduce");
  const part = new Spans(spans.sample, { ...graph, across: { ...across, node: across.node.fill(node) } });
  assert.equal(part.where(part.of(node)[0]), "CPUPlace(1), CPUPlace(2)");
});

test("the longest op is no collective", () => {
  const mixed = spansOf([
    [0, 10],
    [10, 30],
    [30, 90, 1],
  ]);
  assert.equal(mixed.longest(), 1);
  assert.equal(spansOf([[0, 9, 1]]).longest(), -1);
  assert.equal(spansOf([]).longest(), -1);
});

test("time that collectives share counts once", () => {
  assert.equal(
    spansOf([
      [0, 10, 1],
      [5, 20, 1],
      [30, 40, 1],
      [32, 35, 1],
      [0, 100],
    ]).collectives().time,
    30,
  );
  assert.equal(
    covered(
      spansOf([
        [10, 20],
        [0, 5],
      ]),
      [0, 1],
    ),
    15,
  );
});

test("a step lasts at least as long as its spans", () => {
  assert.equal(spansOf([[0, 250]]).duration, 250);
  assert.equal(Math.round(spansOf([[0, 10]]).duration), 100);
  assert.ok(spansOf([], { seconds: 0 }).duration > 0);
});
