import assert from "node:assert/strict";
import { test } from "node:test";
import { bandPath, linePath, markPath } from "./paths.js";

const same = (value) => value;

test("a line breaks at NaN and goes on behind it", () => {
  assert.equal(linePath([0, 1, 2, 3, 4], [5, 6, NaN, 7, 8], same, same), "M0 5h0L1 6M3 7h0L4 8");
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

test("5 runs of 2,000 buckets with bands take a few milliseconds", () => {
  const steps = Float64Array.from({ length: 2000 }, (_, i) => i);
  const values = Float32Array.from(steps, (i) => Math.exp(-i / 500) + 0.1 * Math.sin(i * 7));
  const place = (i) => 40 + i * 0.25;
  const draw = () => {
    for (let run = 0; run < 5; run++) {
      linePath(steps, values, place, (v) => 150 - 100 * v);
      bandPath(
        steps,
        values,
        values.map((v) => v + 0.1),
        place,
        (v) => 150 - 100 * v,
      );
    }
  };
  for (let i = 0; i < 20; i++) draw();
  const times = Array.from({ length: 15 }, () => {
    const start = performance.now();
    draw();
    return performance.now() - start;
  });
  const best = Math.min(...times);
  console.log(`5 x 2,000 buckets: ${best.toFixed(2)} ms`);
  assert.ok(best < 25, `${best} ms`); // 3 ms on an idle machine
});
