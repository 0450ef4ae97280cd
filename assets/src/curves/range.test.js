import assert from "node:assert/strict";
import { test } from "node:test";
import { typicalRange } from "./range.js";

const falling = Array.from({ length: 400 }, (_, i) => 0.1 + 2.2 * Math.exp(-i / 40));
const diverged = falling.map((value, i) => (i < 50 ? value : Math.min(1e30, value * 1.4 ** (i - 50))));
const run = (mean) => ({ mean: Float32Array.from(mean) });
const near = (range, wanted) =>
  range.forEach((value, i) => assert.ok(Math.abs(value - wanted[i]) < 1e-4, `${range} is not ${wanted}`));

test("what is usual is shown whole, the steep beginning included", () => {
  for (const log of [false, true]) near(typicalRange([run(falling)], log).range, [Math.min(...falling), 2.3]);
  const sharp = falling.map((value, i) => (i ? value / 1000 : 2.3));
  near(typicalRange([run(sharp)]).range, [Math.min(...sharp), 2.3]);
});

test("a run that diverged does not flatten the others, be they few or many", () => {
  for (const others of [1, 3, 9]) {
    for (const log of [false, true]) {
      const { range, whole } = typicalRange(
        [run(diverged), ...Array.from({ length: others }, () => run(falling))],
        log,
      );
      assert.ok(range[1] < (log ? 2.4e2 : 7), `${range}`);
      assert.ok(range[0] < 0.11 && whole[1] > 1e29);
    }
  }
  assert.ok(typicalRange([run(falling), ...Array.from({ length: 3 }, () => run(diverged))]).range[1] < 7);
});

test("beside one that diverged, a run on another level stays", () => {
  const low = [0.4, 0.3, 0.2, 0.15, 0.12, 0.1];
  const far = [2.3, 40, 1e5, 1e9, 1e14, 1e20];
  const high = [1.642, 1.2, 0.95, 0.8, 0.7, 0.655];
  for (const runs of [
    [low, far, high],
    [low, high, far],
    [low, high, far, far],
  ]) {
    const { range } = typicalRange(runs.map(run));
    assert.ok(range[1] >= 1.64 && range[1] < 30, `${range}`);
  }
  near(
    typicalRange(
      [
        [1, 0.9, 0.8],
        [30, 28, 25],
        [33, 30, 29],
      ].map(run),
    ).range,
    [0.8, 33],
  );
});

// Curves that fall or rise, each somewhere within its own level; a fixed series of pseudo-random numbers.
function levels(seed, number, factor) {
  let state = seed;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  return Array.from({ length: number }, () => {
    const level = factor ** random();
    const shape = 1 + 4 * random();
    const falls = random() < 0.5;
    return Array.from({ length: 40 }, (_, i) => level * (0.02 + 0.98 * (falls ? 1 - i / 39 : i / 39) ** shape));
  });
}

test("no run leaves that is within reach of the run in the middle", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const runs = levels(seed, 2 + (seed % 6), 100);
    const tops = runs.map((values) => Math.max(...values)).sort((a, b) => a - b);
    const middle = tops[Math.floor((tops.length - 1) / 2)];
    const wanted = Math.max(...tops.filter((top) => top <= 7 * middle));
    const { range } = typicalRange(runs.map(run));
    assert.ok(range[1] >= wanted * 0.9999, `${seed}: ${range[1]} < ${wanted} of ${tops}`);
  }
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
