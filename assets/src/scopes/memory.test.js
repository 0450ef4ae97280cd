import assert from "node:assert/strict";
import { test } from "node:test";
import { byteTicks } from "../draw/numbers.js";
import { decoded, scopesMessage } from "../../fixtures/timeline.js";
import { dropWords, memorySpec, noteWords, PINS, sinceDrop, steps } from "./memory.js";

const message = (options) => decoded(scopesMessage(options));

test("memory is held until the next point", () => {
  assert.deepEqual(steps([1, 4, 6], [10, 20, 20]), { x: [1, 4, 4, 6], y: [10, 10, 20, 20] });
  assert.deepEqual(steps([100, 100, 101], [8, 0, 8]), { x: [100, 100, 101, 101], y: [8, 0, 0, 8] });
  assert.deepEqual(steps([], []), { x: [], y: [] });
});

test("a part begins with what was held before it", () => {
  assert.deepEqual(steps([1, 4, 9], [10, 20, 30], 6), { x: [6, 9, 9], y: [20, 20, 30] });
});

test("a drop says how much, when and why", () => {
  const { drops } = message({ every: 100, grows: 12_288, steps: 1000 });
  assert.equal(dropWords(drops, 0), "dropped 1.2 MiB per device after step 100 (interval)");
  assert.equal(dropWords(drops, 3), "dropped 1.2 MiB per device after step 400 (asked for)");
  const uneven = { step: [7], bytes: [[1024], [2048]], cause: ["error"] };
  assert.equal(dropWords(uneven, 0), "dropped between 1.0 KiB and 2.0 KiB per device after step 7 (error)");
});

test("the note counts drops and says what is held", () => {
  const { drops, memory } = message({ steps: 1200 });
  memory.bytes[1] = memory.bytes[0];
  assert.equal(
    noteWords({ drops, memory }),
    "12 drops, the last dropped 1.2 MiB per device after step 1,200 (asked for); 1.2 MiB per device held",
  );
  assert.match(noteWords({ drops: { ...drops, total: 5000 }, memory }), /^5,000 drops/);
  assert.equal(noteWords(message({ devices: 1, every: 0, steps: 10, grows: 1024 })), "no drops yet; 10.0 KiB held");
  assert.equal(noteWords({ memory: { step: [], bytes: [] } }), "no drops yet");
  const unwatched = { step: [], bytes: [], cause: [], total: 0, since: 1000 };
  assert.equal(noteWords({ drops: unwatched }), "no drops, not watched before step 1,000");
});

test("devices differ in colour and dashes, drops are pins until there are too many", () => {
  const { series, marks } = memorySpec(message({ devices: 4, steps: 1000 }));
  assert.equal(new Set(series.map(({ color }) => color)).size, 4);
  assert.equal(new Set(series.map(({ dash }) => dash)).size, 4);
  assert.deepEqual([marks[0].shape, marks[0].x.length], ["pin", 10]);
  const many = memorySpec(message({ steps: 100 * (PINS + 1) })).marks[0];
  assert.deepEqual([many.shape, many.x.length], ["triangle", PINS + 1]);
});

test("the last drops keep their own words", () => {
  const whole = message({ steps: 2000 });
  const from = sinceDrop(whole.drops, 3);
  assert.equal(from, 1700);
  const { marks, series } = memorySpec(whole, from);
  assert.equal(marks[0].text(1), dropWords(whole.drops, 17));
  assert.equal(series[0].x[0], 1700);
  assert.equal(sinceDrop(whole.drops, 20), -Infinity);
  assert.equal(sinceDrop(undefined, 3), -Infinity);
});

test("sizes have round numbers in their own unit", () => {
  const unit = 1024 ** 2;
  assert.deepEqual(byteTicks(0, 3 * unit, 3), [0, unit, 2 * unit, 3 * unit]);
  assert.deepEqual(byteTicks(0, 1.5 * unit, 3), [0, 0.5 * unit, unit, 1.5 * unit]);
  assert.deepEqual(byteTicks(0, 4, 2), [0, 2, 4]);
  assert.deepEqual(byteTicks(0, 1, 2), [0]);
});
