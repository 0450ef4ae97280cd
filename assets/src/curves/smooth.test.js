import assert from "node:assert/strict";
import { test } from "node:test";
import { broken, smoothed } from "./smooth.js";

test("without weight the values are untouched", () => {
  const values = Float32Array.of(3, 1);
  assert.equal(smoothed(values, 0), values);
});

test("a constant stays what it is from the first value on", () => {
  const found = smoothed([2, 2, 2], 0.9);
  for (const value of found) assert.ok(Math.abs(value - 2) < 1e-12);
});

test("a jump is followed slowly", () => {
  const found = smoothed([0, 0, 1, 1], 0.5);
  assert.ok(found[2] > 0.5 && found[2] < found[3] && found[3] < 1);
});

test("NaN is a gap and does not spread", () => {
  const found = smoothed([1, NaN, 1], 0.8);
  assert.ok(Number.isNaN(found[1]));
  assert.ok(Math.abs(found[2] - 1) < 1e-12);
});

test("where a curve stops being numbers", () => {
  const steps = Float64Array.of(1, 2, 3);
  assert.equal(broken(steps, Float32Array.of(1, 2, 3)), null);
  assert.deepEqual(broken(steps, Float32Array.of(1, NaN, NaN)), { step: 2, text: "NaN from step 2" });
  assert.deepEqual(broken(steps, Float32Array.of(1, NaN, 3)), { step: 2, text: "NaN at step 2" });
  assert.deepEqual(broken(steps, Float32Array.of(Infinity, 2, 3)), { step: 1, text: "Inf at step 1" });
});

test("a first step that is known is said as it is, whatever the buckets", () => {
  const found = broken(Float64Array.of(100, 200, 250), Float32Array.of(1, 1, NaN), 100, 227);
  assert.deepEqual(found, { step: 227, text: "NaN from step 227" });
});

test("of a bucket only its range is known", () => {
  const found = broken(Float64Array.of(100, 200, 250), Float32Array.of(1, 1, NaN), 100);
  assert.deepEqual(found, { step: 201, text: "NaN from about step 201" });
});
