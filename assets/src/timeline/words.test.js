import assert from "node:assert/strict";
import { test } from "node:test";
import { lanesOf } from "./lanes.js";
import { COLUMNS } from "./columns.js";
import { Spans } from "./spans.js";
import { decoded, graphMessage, sampleMessage } from "../../fixtures/timeline.js";
import { View } from "./view.js";
import { axis, clockWords, details, gist, noteWords, percent, spoken } from "./words.js";

const graph = decoded(graphMessage());
const sample = decoded(sampleMessage({ step: 1200 }));
const spans = new Spans(sample, graph);

test("the note says step, duration, the slowest op of the newest sample, and collectives", () => {
  const slowest = { node: 1, device: 1, label: "relu fc_1.tmp_2", us: 412, steps: 12 };
  const words = noteWords(spans, { slowest });
  assert.match(
    words,
    /^step 1,200 took \S+ ms; slowest: relu fc_1.tmp_2 on CPUPlace\(1\), 412 µs \(median of 12 steps\); 3 collectives took \S+ µs, \d+ %/,
  );
  assert.match(noteWords(spans), /^step 1,200 took \S+ ms; 3 collectives/);
});

test("the longest op of the step is in the text alternative", () => {
  const longest = spans.longest();
  const words = `longest op of this step: ${spans.name(longest)} on ${spans.where(longest)}, `;
  assert.ok(gist(spans, lanesOf(spans)).includes(words));
});

test("a step without spans says so much", () => {
  const none = new Spans({ step: 3, seconds: 0.002, graph: 1 }, graph);
  assert.equal(noteWords(none), "step 3 took 2.00 ms; its ops were not timed");
  assert.match(gist(none, lanesOf(none)), /^timeline, step 3/);
  assert.equal(noteWords(new Spans({ step: 3, seconds: 0, graph: 1 }, graph)), "step 3; its ops were not timed");
});

test("a tooltip leaves out what is not known", () => {
  const known = Object.fromEntries(details(spans, 0, 0));
  assert.deepEqual(Object.keys(known), ["layer", "role", "where", "start", "duration", "writes"]);
  assert.equal(known.writes, "6.0 KiB");
  const unknown = Object.fromEntries(details(new Spans(sample, null), 0, 0));
  assert.deepEqual(Object.keys(unknown), ["where", "start", "duration"]);
});

test("a collective has its own time, and the devices' waits beside it", () => {
  const i = spans.kinds.indexOf("collective");
  const known = Object.fromEntries(details(spans, i, -1));
  assert.ok(known["its own time"] && !known.duration);
  assert.match(known.waited, /^CPUPlace\(0\) .+s, CPUPlace\(1\) .+s$/);
  const within = new Spans({ ...sample, spans: { ...sample.spans, within: sample.spans.collective } }, graph);
  assert.match(Object.fromEntries(details(within, i, -1))["its own time"], /; a share of the time of the ops/);
});

test("the time of a collective that an op does along with its own work counts once", () => {
  const spansOf = { node: [0, -1, 1], device: [0, -1, 0], thread: [1, 1, 1], start: [10, 12, 30], end: [20, 15, 40] };
  const flags = { collective: [0, 1, 0], within: [0, 1, 0], wait: [0, 0, 0] };
  const labels = ["fused_update", "fused_all_reduce", "mul"];
  const step = { ...sample, graph: 99, seconds: 50e-6, labels, members: {}, arrivals: {} };
  const both = new Spans({ ...step, spans: { ...spansOf, ...flags, label: [0, 1, 2] } }, graph);
  const cells = (i) => COLUMNS.map((column) => (column.text ?? column.of)(both, i));
  assert.deepEqual(cells(0).slice(-2), ["7.0 µs", "14 %"]);
  assert.deepEqual(cells(1).slice(-2), ["3.0 µs", "6 %"]);
  assert.match(cells(1)[0], /^fused_all_reduce, within fused_update$/);
  assert.deepEqual(cells(2), ["mul", ...cells(2).slice(1, 4), "10.0 µs", "20 %"]);
  assert.match(Object.fromEntries(details(both, 0, 0)).duration, /^7\.0 µs, 14 % of the step; 10\.0 µs with the coll/);
  assert.equal(both.longest(), 2);
});

test("what is spoken says which span of how many", () => {
  assert.match(
    spoken(spans, lanesOf(spans), { lane: 1, row: 0, position: 0 }),
    /^mul \+ elementwise_add \+ relu of fc_0 on CPUPlace\(0\), thread 0: starts at .+; 1 of 15 in this lane$/,
  );
});

test("small shares are not called 0 %", () => {
  assert.deepEqual([0, 0.0001, 0.005, 0.184, 1].map(percent), ["0 %", "0.1 %", "0.5 %", "18 %", "100 %"]);
});

test("the axis has as many digits as its marks need", () => {
  const view = new View(7300);
  assert.deepEqual(
    axis(view, 4).map(({ text }) => text),
    ["0 ms", "2 ms", "4 ms", "6 ms"],
  );
  view.show(5000, 5040);
  assert.deepEqual(
    axis(view, 4).map(({ text }) => text),
    ["5.00 ms", "5.01 ms", "5.02 ms", "5.03 ms", "5.04 ms"],
  );
  const short = new View(40);
  assert.deepEqual(
    axis(short, 4).map(({ text }) => text),
    ["0 µs", "10 µs", "20 µs", "30 µs", "40 µs"],
  );
});

test("collectives that take no time are counted all the same", () => {
  const still = { ...sample, spans: { ...sample.spans, end: sample.spans.end.slice() } };
  sample.spans.collective.forEach((is, i) => is && (still.spans.end[i] = sample.spans.start[i]));
  assert.match(noteWords(new Spans(still, graph)), /; 3 collectives took no time of their own$/);
  assert.match(noteWords(new Spans(decoded(sampleMessage({ devices: 1 })), graph)), /; no collectives$/);
});

test("of several clocks the note says how well they are aligned", () => {
  assert.equal(clockWords(undefined), "");
  assert.equal(clockWords({ within: [0] }), "");
  assert.equal(clockWords({ within: [0, 2.5, 1] }), "clocks of 3 ranks aligned to ± 2.5 µs");
});
