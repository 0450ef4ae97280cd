import assert from "node:assert/strict";
import { test } from "node:test";
import { apart, bytes, number } from "./numbers.js";
import { extent, gist, logTicks, nearest, padded, scale } from "./scale.js";

test("a linear scale puts the ends of the range on the ends of the pixels", () => {
  const x = scale([10, 20], [0, 100]);
  assert.deepEqual([x(10), x(15), x(20)], [0, 50, 100]);
});

test("a logarithmic scale puts each power of ten equally far, and has no place for zero", () => {
  const y = scale([1, 100], [100, 0], true);
  assert.deepEqual(
    [1, 10, 100].map((value) => Math.abs(Math.round(y(value)))),
    [100, 50, 0],
  );
  assert.ok(Number.isNaN(y(0)) && Number.isNaN(y(-1)));
});

test("a range of one value still maps to a pixel", () => {
  assert.equal(scale([3, 3], [0, 10])(3), 0);
  const [low, high] = padded([3, 3]);
  assert.ok(low < 3 && high > 3);
});

test("the extent leaves out what is not finite", () => {
  assert.deepEqual(extent([[NaN, 2, Infinity], [-1]]), [-1, 2]);
  assert.deepEqual(extent([[-1, 0, 2, 4]], true), [2, 4]);
  assert.equal(extent([[NaN], []]), null);
});

test("air above never takes a range of positive values below zero", () => {
  assert.equal(padded([0.001, 1])[0], 0);
});

test("ticks of a logarithmic axis are powers of ten, with their doubles when there are few", () => {
  assert.deepEqual(logTicks(0.001, 1000), [0.001, 0.01, 0.1, 1, 10, 100, 1000]);
  assert.deepEqual(logTicks(1, 20), [1, 2, 5, 10, 20]);
  assert.ok(logTicks(2.1, 2.9).length >= 2);
});

test("the numbers of an axis are all different", () => {
  assert.deepEqual(apart([2.3026, 2.3028, 2.303], number), ["2.3026", "2.3028", "2.303"]);
  assert.deepEqual(apart([1, 2, 2.5], number), ["1", "2", "2.5"]);
  assert.deepEqual(apart([1048576, 1048576 + 20480], bytes), ["1.00 MiB", "1.02 MiB"]);
  assert.deepEqual(apart([5, 5], number), ["5", "5"]);
});

test("the nearest position, also outside of the column", () => {
  const column = Float64Array.of(1, 5, 9);
  assert.deepEqual(
    [-3, 1, 2.9, 3.1, 8, 99].map((step) => nearest(column, step)),
    [0, 0, 0, 1, 2, 2],
  );
  assert.equal(nearest([], 1), -1);
});

test("the gist names first, last, lowest and highest", () => {
  assert.equal(gist("loss", [3, 1, 2]), "loss: first 3, last 2, lowest 1, highest 3 over 3 points");
  assert.equal(gist("loss", [NaN]), "loss: no finite values");
});
