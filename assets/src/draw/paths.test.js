import assert from "node:assert/strict";
import { test } from "node:test";
import { operations } from "../../fixtures/operations.js";
import { bandPath, linePath, lonePath, markPath } from "./paths.js";

const same = (value) => value;

test("a line breaks at NaN and goes on behind it", () => {
  assert.equal(linePath([0, 1, 2, 3, 4], [5, 6, NaN, 7, 8], same, same), "M0 5h0L1 6M3 7h0L4 8");
});

test("a point without neighbours is a dot, for a line has no length there", () => {
  assert.equal(lonePath([30], [60], same, same), "M30 60h0");
  assert.equal(lonePath([0, 1, 2, 3, 4, 5], [5, 6, NaN, 7, NaN, 8], same, same), "M3 7h0M5 8h0");
  assert.equal(lonePath([0, 1], [5, 6], same, same) + lonePath([], [], same, same), "");
});

test("points on the same half pixel are drawn once", () => {
  assert.equal(linePath([0, 0.1, 0.2, 9], [1, 1, 1.1, 2], same, same), "M0 1h0L9 2");
});

test("a band goes there along the top and back along the bottom", () => {
  assert.equal(bandPath([0, 1], [8, 9], [1, 2], same, same), "M0 1L1 2L1 9L0 8Z");
});

test("a band covers all that falls on one pixel, and breaks at NaN", () => {
  assert.equal(bandPath([0, 0.2, 3, 5], [5, 9, NaN, 6], [4, 3, 1, 2], same, same), "M0 3L0 9ZM5 2L5 6Z");
});

test("marks on one pixel are drawn once", () => {
  assert.equal(markPath("line", [1, 1.1, 2], same, 0, 9), "M1 0V9M2 0V9");
  assert.equal(markPath("triangle", [4], same, 0, 9), "M0.5 0h7l-3.5 6z");
});

test("ten times as many values are ten times the work", () => {
  const work = (number) => {
    const steps = Float64Array.from({ length: number }, (_, i) => i);
    const values = Float32Array.from(steps, (i) => Math.sin(i * 7));
    return operations(() => {
      linePath(steps, values, same, same);
      bandPath(steps, values, values, same, same);
    });
  };
  const [few, many] = [work(200), work(2000)];
  assert.ok(few > 400 && many < 10.1 * few, `${few}, ${many}`);
});
