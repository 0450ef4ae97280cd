import assert from "node:assert/strict";
import { test } from "node:test";
import { readings } from "./crosshair.js";

const same = (value) => value;
const plan = { x: same, y: same };
const long = { name: "long", x: [10, 20, 30, 40], y: [1, 2, 3, 4] };
const short = { name: "short", x: [10, 20], y: [5, NaN] };

test("all series are read at the nearest step", () => {
  const { at, points } = readings({ series: [long, short], marks: [] }, plan, 12);
  assert.equal(at, 10);
  assert.deepEqual(
    points.map(({ one, i }) => one.y[i]),
    [1, 5],
  );
});

test("a series that has ended has nothing", () => {
  const { points } = readings({ series: [long, short], marks: [] }, plan, 40);
  assert.deepEqual(
    points.map(({ one }) => one.name),
    ["long"],
  );
});

test("a mark beside the line is named", () => {
  const marks = [{ name: "drops", x: [19, 31], text: (i) => `drop ${i}` }];
  assert.deepEqual(readings({ series: [long], marks }, plan, 30).named, ["drop 1"]);
  assert.deepEqual(readings({ series: [long], marks }, plan, 40).named, []);
});

test("without points there is nothing to read", () => {
  assert.equal(readings({ series: [{ x: [], y: [] }], marks: [] }, plan, 3), null);
});
