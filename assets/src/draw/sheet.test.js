import assert from "node:assert/strict";
import { test } from "node:test";
import { lines, rowsOf } from "./sheet.js";

test("long notes are broken between words", () => {
  assert.deepEqual(lines("step 30, 7 ms; slowest: mul", 14), ["step 30, 7 ms;", "slowest: mul"]);
  assert.deepEqual(lines("incomprehensibilities", 5), ["incomprehensibilities"]);
  assert.deepEqual([lines("", 5), lines(undefined, 5)], [[], []]);
});

test("keys stand side by side until a row is full", () => {
  const keys = ["forward", "backward", "optimize"].map((text) => ({ symbol: null, text }));
  assert.deepEqual(
    rowsOf(keys, 150).map((row) => row.length),
    [2, 1],
  );
  assert.deepEqual(
    rowsOf(keys, 10).map((row) => row.length),
    [1, 1, 1],
  );
  assert.deepEqual(rowsOf([], 150), []);
});
