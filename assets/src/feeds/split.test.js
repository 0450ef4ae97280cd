import assert from "node:assert/strict";
import { test } from "node:test";
import { arrayBytes, rowsText, splits, summary, unevenText } from "./split.js";

const feeds = (rows) => ({
  devices: rows.map((_, i) => `CPUPlace(${i})`),
  names: ["x", "y"],
  rows: { x: rows, y: rows },
});

test("feeds that are split alike share a bar", () => {
  const [one, ...more] = splits(feeds([3, 4]));
  assert.deepEqual(more, []);
  assert.deepEqual(one.names, ["x", "y"]);
  assert.deepEqual(one.parts[1], { device: 1, rows: 4, first: 3, last: 6 });
});

test("feeds that are split otherwise have a bar of their own", () => {
  const other = { ...feeds([3, 4]), rows: { x: [3, 4], y: [7, 7] }, first: { x: [0, 3], y: [0, 0] } };
  assert.deepEqual(
    splits(other).map(({ names }) => names),
    [["x"], ["y"]],
  );
  assert.equal(splits(other)[1].parts[1].first, 0);
});

test("an uneven split is said in words", () => {
  assert.equal(unevenText(splits(feeds([3, 4]))[0]), "uneven: 3, 4 rows");
  assert.equal(unevenText(splits(feeds([4, 4]))[0]), "");
  assert.equal(unevenText(splits(feeds([3, 4, 4, 4, 4, 4, 4, 4, 4]))[0]), "uneven: 3 to 4 rows");
});

test("rows are named by the first and the last", () => {
  const texts = splits(feeds([2, 1, 0]))[0].parts.map(rowsText);
  assert.deepEqual(texts, ["rows 0 to 1", "row 2", "no rows"]);
});

test("the summary counts rows, devices and bytes", () => {
  const sample = { step: 1200, feeds: { ...feeds([32, 32]), nbytes: [1024, 1024] } };
  assert.equal(summary(sample), "step 1,200: 64 rows over 2 devices, 2.0 KiB");
  assert.equal(summary({ step: 1, feeds: feeds([1]) }), "step 1: 1 row over 1 device, 0 B");
});

test("bytes of an array follow from shape and dtype", () => {
  assert.equal(arrayBytes([32, 64], "float32"), 8192);
  assert.equal(arrayBytes([], "int64"), 8);
  assert.equal(arrayBytes([2], "complex64"), null);
  assert.equal(arrayBytes(undefined, "int64"), null);
});
