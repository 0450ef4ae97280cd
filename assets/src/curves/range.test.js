import assert from "node:assert/strict";
import { test } from "node:test";
import { typicalRange } from "./range.js";

const falling = Array.from({ length: 400 }, (_, i) => 0.1 + 2.2 * Math.exp(-i / 40));
const diverged = falling.map((value, i) => (i < 50 ? value : Math.min(1e30, value * 1.4 ** (i - 50))));
const run = (mean) => ({ mean: Float32Array.from(mean) });
const near = (found, wanted) => found.forEach((value, i) => assert.ok(Math.abs(value - wanted[i]) < 1e-4, `${found} is not ${wanted}`));

test("what is usual is shown whole, the steep beginning included", () => {
  for (const log of [false, true]) near(typicalRange([run(falling)], log).range, [Math.min(...falling), 2.3]);
  const sharp = falling.map((value, i) => (i ? value / 1000 : 2.3));
  near(typicalRange([run(sharp)]).range, [Math.min(...sharp), 2.3]);
});

test("a run that diverged does not flatten the others, be they few or many", () => {
  for (const others of [1, 3, 9]) {
    for (const log of [false, true]) {
      const { range, whole } = typicalRange([run(diverged), ...Array.from({ length: others }, () => run(falling))], log);
      assert.ok(range[1] < (log ? 2.4e2 : 7), `${range}`);
      assert.ok(range[0] < 0.11 && whole[1] > 1e29);
    }
  }
  assert.ok(typicalRange([run(falling), ...Array.from({ length: 3 }, () => run(diverged))]).range[1] < 7);
});

test("a spike, up or down, is cut off", () => {
  const spiked = falling.map((value, i) => (i === 200 ? 900 : i === 300 ? -900 : value));
  const { range, whole } = typicalRange([run(spiked)]);
  near(range, [Math.min(...falling), 2.3]);
  near(whole, [-900, 900]);
  const band = { ...run(falling), low: Float32Array.from(falling), high: Float32Array.from(spiked) };
  near(typicalRange([band]).range, [Math.min(...falling), 2.3]);
});

test("an accuracy that begins flat, a run that never learns, one that has just begun: all are shown", () => {
  const late = falling.map((_, i) => (i < 300 ? 0.1 + 0.001 * (i % 3) : 0.9));
  near(typicalRange([run(late)]).range, [0.1, 0.9]);
  near(typicalRange([run(late), run(late.map(() => 0.01))]).range, [0.01, 0.9]);
  const counted = falling.map((_, i) => 10 * i);
  near(typicalRange([run(counted), run([0, 2])]).range, [0, 3990]);
});

test("without a number there is no range, and a constant has one", () => {
  assert.equal(typicalRange([run([NaN]), run([])]), null);
  assert.equal(typicalRange([run([-1, 0])], true), null);
  near(typicalRange([run([7, 7, 7])]).range, [7, 7]);
});
