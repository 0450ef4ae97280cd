import assert from "node:assert/strict";
import { test } from "node:test";
import { bars, ceiling } from "./history.js";
import { Shown } from "./shown.js";
import { sorted } from "../draw/table.js";
import { COLUMNS } from "./columns.js";
import { Spans } from "./spans.js";
import { decoded, graphMessage, sampleMessage } from "../../fixtures/timeline.js";

const sample = (step) => ({ type: "sample", step });
const following = () => {
  const sent = [];
  return { sent, shown: new Shown((message) => sent.push(message)) };
};

test("the newest step is followed, also before the list of steps knows it", () => {
  const { shown } = following();
  shown.take(sample(10), []);
  shown.take(sample(20), [10]);
  assert.equal(shown.sample.step, 20);
  assert.equal(shown.take(sample(30), [10, 20, 30]), true);
  assert.equal(shown.sample.step, 30);
});

test("a chosen step stays while new ones come", () => {
  const { shown, sent } = following();
  shown.take(sample(30), [10, 20, 30]);
  shown.choose(10);
  assert.deepEqual(sent, [{ type: "sample", step: 10 }]);
  assert.ok(shown.waiting);
  assert.equal(shown.take(sample(40), [10, 20, 30, 40]), false);
  assert.equal(shown.take(sample(10), [10, 20, 30, 40]), true);
  assert.equal(shown.sample.step, 10);
  assert.equal(shown.take(sample(50), [10, 20, 30, 40, 50]), false);
  assert.equal(shown.sample.step, 10);
});

test("following again shows the newest at once, and asks for it so that other panels have it too", () => {
  const { shown, sent } = following();
  shown.take(sample(30), [10, 30]);
  shown.choose(10);
  shown.take(sample(10), [10, 30]);
  shown.follow([10, 30]);
  assert.equal(shown.sample.step, 30);
  assert.deepEqual(sent.at(-1), { type: "sample", step: 30 });
  assert.equal(sent.length, 2);
});

test("following again shows the newest that came meanwhile and asks for none", () => {
  const { shown, sent } = following();
  shown.take(sample(30), [10, 20, 30]);
  shown.choose(10);
  shown.take(sample(10), [10, 20, 30]);
  shown.take(sample(40), [10, 20, 30, 40]);
  shown.follow([10, 20, 30, 40]);
  assert.equal(shown.sample.step, 40);
  assert.equal(sent.length, 1);
});

test("an answer that another panel asked for is not taken for news", () => {
  const { shown } = following();
  shown.take(sample(30), [10, 20, 30]);
  assert.equal(shown.take(sample(20), [10, 20, 30]), false);
  assert.equal(shown.sample.step, 30);
});

test("a chosen step that is gone, as in a new run, is let go", () => {
  const { shown } = following();
  shown.take(sample(30), [10, 20, 30]);
  shown.choose(20);
  shown.take(sample(5), [5]);
  assert.equal(shown.chosen, null);
  assert.equal(shown.sample.step, 5);
});

test("choosing the newest needs no question", () => {
  const { shown, sent } = following();
  shown.take(sample(30), [10, 30]);
  shown.choose(30);
  assert.deepEqual(sent, []);
  assert.equal(shown.waiting, false);
});

test("bars hold every step once, the highest of several", () => {
  const few = bars([1, 2, 3], 300);
  assert.deepEqual(
    few.map(({ first, last, high }) => [first, last, high]),
    [
      [0, 0, 1],
      [1, 1, 2],
      [2, 2, 3],
    ],
  );
  const values = Array.from({ length: 1000 }, (_, i) => (i === 503 ? 9 : 1));
  const many = bars(values, 300);
  assert.ok(many.length <= 300);
  assert.equal(many[0].first, 0);
  assert.equal(many.at(-1).last, 999);
  assert.ok(many.every((bar, k) => k === 0 || bar.first === many[k - 1].last + 1));
  assert.equal(many.find(({ first, last }) => first <= 503 && last >= 503).high, 9);
  assert.deepEqual(bars([], 300), []);
});

test("the table sorts numbers largest first and words by letter", () => {
  const spans = new Spans(decoded(sampleMessage()), decoded(graphMessage()));
  const by = (key, down) =>
    sorted(
      spans,
      spans.count,
      COLUMNS.find(({ name }) => name === key),
      down,
    );
  const longest = by("duration", true).map((i) => spans.lasts(i));
  assert.deepEqual(
    longest,
    [...longest].sort((a, b) => b - a),
  );
  const names = by("op", false).map((i) => spans.name(i));
  assert.deepEqual(names, [...names].sort());
  assert.equal(by("start", false)[0], spans.start.indexOf(Math.min(...spans.start)));
});

test("one very long step does not press the others flat", () => {
  assert.equal(ceiling([100, 2, 1, 2, 3]), 6);
  assert.equal(ceiling([1, 2, 3]), 3);
  assert.equal(ceiling([]), 0);
});
