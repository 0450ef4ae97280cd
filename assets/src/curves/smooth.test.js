import assert from "node:assert/strict";
import { test } from "node:test";
import { broken, smoothed } from "./smooth.js";

test("without weight the values are untouched", () => {
  const values = Float32Array.of(3, 1);
  assert.equal(smoothed(values, 0), values);
});

test("a constant stays what it is from the first value on", () => {
  const averages = smoothed([2, 2, 2], 0.9);
  for (const value of averages) assert.ok(Math.abs(value - 2) < 1e-12);
});

test("a jump is followed slowly", () => {
  const averages = smoothed([0, 0, 1, 1], 0.5);
  assert.ok(averages[2] > 0.5 && averages[2] < averages[3] && averages[3] < 1);
});

test("NaN is a gap and does not spread", () => {
  const averages = smoothed([1, NaN, 1], 0.8);
  assert.ok(Number.isNaN(averages[1]));
  assert.ok(Math.abs(averages[2] - 1) < 1e-12);
});

test("where a curve stops being numbers", () => {
  const steps = Float64Array.of(1, 2, 3);
  assert.equal(broken(steps, Float32Array.of(1, 2, 3)), null);
  assert.deepEqual(broken(steps, Float32Array.of(1, NaN, NaN)), { step: 2, text: "NaN from step 2" });
  assert.deepEqual(broken(steps, Float32Array.of(1, NaN, 3)), { step: 2, text: "NaN at step 2" });
  assert.deepEqual(broken(steps, Float32Array.of(Infinity, 2, 3)), { step: 1, text: "Inf at step 1" });
});

test("a first step that is known is said as it is, whatever the buckets", () => {
  const breakdown = broken(Float64Array.of(100, 200, 250), Float32Array.of(1, 1, NaN), 100, 227);
  assert.deepEqual(breakdown, { step: 227, text: "NaN from step 227" });
});

test("of a bucket only its range is known", () => {
  const breakdown = broken(Float64Array.of(100, 200, 250), Float32Array.of(1, 1, NaN), 100);
  assert.deepEqual(breakdown, { step: 201, text: "NaN from about step 201" });
});
