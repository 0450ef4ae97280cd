import assert from "node:assert/strict";
import { test } from "node:test";
import {
  busyWords,
  firstEnding,
  heightOf,
  lanesOf,
  nearest,
  neighbour,
  placeAt,
  placesOf,
  rowTop,
  spanOf,
} from "./lanes.js";
import { Spans } from "./spans.js";
import { decoded, graphMessage, sampleMessage } from "../../fixtures/timeline.js";

const at = (start, end, device = 0, thread = 0) => ({ start, end, device, thread });
const spansOf = (list) => {
  const column = (name, Kind) => Kind.from(list, (span) => span[name]);
  const columns = { start: column("start", Float32Array), end: column("end", Float32Array) };
  return new Spans({
    step: 1,
    seconds: 100e-6,
    spans: { ...columns, device: column("device", Int32Array), thread: column("thread", Int32Array) },
  });
};

test("of several processes each has a lane for the collectives it told of", () => {
  const spans = spansOf([at(0, 4, -1), at(1, 5, -1), at(0, 1, 0), at(0, 1, 1)]);
  spans.sample.spans.process = Int32Array.of(0, 1, 0, 1);
  const names = lanesOf(spans).map(({ label, rows }) => [label, rows.flat()]);
  assert.deepEqual(names.slice(0, 2), [
    ["across devices, rank 0", [0]],
    ["across devices, rank 1", [1]],
  ]);
});

test("collectives come first, then devices, then threads", () => {
  const lanes = lanesOf(spansOf([at(0, 1, 1, 2), at(0, 1, 10), at(0, 1, 1, 0), at(3, 4, -1, 5), at(0, 1, 0)]));
  assert.deepEqual(
    lanes.map(({ device, thread }) => [device, thread]),
    [
      [-1, 0],
      [0, 0],
      [1, 0],
      [1, 2],
      [10, 0],
    ],
  );
});

test("what a thread waits is neither busy nor idle", () => {
  const { sample } = spansOf([at(0, 40), at(40, 60), at(60, 70)]);
  sample.spans.wait = Uint8Array.of(0, 1, 0);
  const [lane] = lanesOf(new Spans(sample));
  assert.deepEqual([lane.rows.length, Math.round(lane.busy * 100), Math.round(lane.waiting * 100)], [1, 50, 20]);
  assert.equal(busyWords(lane), "busy 50 %, waits 20 %, idle 30 %");
});

test("spans that overlap get rows of their own, and count as busy once", () => {
  const spans = spansOf([at(0, 40), at(10, 20), at(15, 50), at(50, 60)]);
  const [lane] = lanesOf(spans);
  assert.deepEqual(lane.rows, [[0, 3], [1], [2]]);
  assert.equal(busyWords(lane), "busy 60 %, idle 40 %");
});

test("of the collectives it is said how many there are, and what of the step's time they take", () => {
  const lane = (count, busy) => ({ device: -1, busy, rows: [Array.from({ length: count }, (_, i) => i)] });
  assert.equal(busyWords(lane(1, 0)), "1 op, no time of its own");
  assert.equal(busyWords(lane(3, 0)), "3 ops, no time of their own");
  assert.equal(busyWords(lane(1, 0.004)), "1 op, below 1 % of step time");
  assert.equal(busyWords(lane(2, 0.154)), "2 ops, 15 % of step time");
});

test("lanes lie below each other without gaps", () => {
  const lanes = lanesOf(spansOf([at(0, 40), at(10, 20), at(0, 1, 1)]));
  assert.equal(lanes[0].top, 0);
  assert.equal(lanes[1].top, lanes[0].height);
  assert.equal(heightOf(lanes), lanes[0].height + lanes[1].height);
  assert.equal(heightOf([]), 0);
});

test("the first span that ends at or after a time is found by halving", () => {
  const spans = spansOf([at(0, 1), at(2, 3), at(4, 5)]);
  assert.deepEqual(
    [0, 1, 1.5, 3.5, 9].map((time) => firstEnding([0, 1, 2], spans, time)),
    [0, 0, 1, 2, 3],
  );
});

test("the pointer finds spans, and those a few pixels beside it", () => {
  const spans = spansOf([at(10, 20), at(30, 40), at(10, 20, 1)]);
  const lanes = lanesOf(spans);
  const inside = (lane) => rowTop(lanes[lane], 0) + 5;
  const under = (y, time) => {
    const place = placeAt(lanes, spans, y, time, 1);
    return place && spanOf(lanes, place);
  };
  assert.equal(under(inside(0), 15), 0);
  assert.equal(under(inside(0), 25), null);
  assert.equal(under(inside(0), 29.5), 1);
  assert.equal(under(inside(1), 15), 2);
  assert.equal(under(9999, 15), null);
  assert.equal(nearest([], spans, 3), -1);
});

test("arrow keys walk a lane and step to the nearest span of the next", () => {
  const spans = spansOf([at(0, 10), at(20, 30), at(40, 50), at(0, 10, 1), at(38, 44, 1)]);
  const lanes = lanesOf(spans);
  const go = (from, ...keys) => {
    const start = from === null ? null : placesOf(lanes, from)[0];
    return spanOf(
      lanes,
      keys.reduce((place, key) => neighbour(lanes, spans, place, key), start),
    );
  };
  assert.equal(go(null, "ArrowRight"), 0);
  assert.equal(go(0, "ArrowRight", "ArrowRight"), 2);
  assert.equal(go(2, "ArrowRight"), 2);
  assert.equal(go(0, "ArrowLeft"), 0);
  assert.equal(go(2, "ArrowDown"), 4);
  assert.equal(go(2, "ArrowDown", "Home", "ArrowUp"), 0);
  assert.equal(go(0, "ArrowUp"), 0);
  assert.equal(go(0, "End"), 2);
});

test("every span of a large step has one place", () => {
  const spans = new Spans(
    decoded(sampleMessage({ devices: 8, layers: 40, threads: 3 })),
    decoded(graphMessage({ devices: 8, layers: 40 })),
  );
  const lanes = lanesOf(spans);
  const placed = lanes.flatMap(({ rows }) => rows.flat()).sort((a, b) => a - b);
  assert.deepEqual(placed, [...Array(spans.count).keys()]);
  assert.equal(lanes.length, 1 + 8 * 3);
  assert.deepEqual(placesOf(lanes, lanes[3].rows[0][4])[0], { lane: 3, row: 0, position: 4 });
});

test("ops of several devices that ran as one are in a lane of each", () => {
  const graph = decoded(graphMessage({ devices: 2, layers: 1 }));
  const columns = {
    start: [0, 20],
    end: [10, 30],
    device: [0, 1],
    thread: [0, 0],
    node: [-1, 7],
    label: [0, 0],
    collective: [0, 0],
  };
  const members = { span: [0, 0, 0, 0], node: [0, 7, 1, 8] };
  const spans = new Spans(
    { step: 1, seconds: 40e-6, graph: graph.id, labels: ["mul"], spans: columns, members },
    graph,
  );
  const lanes = lanesOf(spans);
  assert.deepEqual(
    lanes.map(({ rows }) => rows),
    [[[0]], [[0, 1]]],
  );
  assert.equal(spans.name(0), "mul × 2 + elementwise_add × 2");
  assert.equal(spans.name(0, 1), "mul + elementwise_add");
  assert.deepEqual(spans.nodes(0, 1), [7, 8]);
  assert.equal(spans.where(0), "CPUPlace(0), CPUPlace(1)");
  assert.deepEqual(placesOf(lanes, 0, 1), [{ lane: 1, row: 0, position: 0 }]);
  const second = neighbour(lanes, spans, placesOf(lanes, 0, 1)[0], "ArrowRight");
  assert.deepEqual(second, { lane: 1, row: 0, position: 1 });
});
