import assert from "node:assert/strict";
import { test } from "node:test";
import { slowestWords } from "./slowest.js";

const slowest = { node: 3, device: 1, label: "mul fc_0.tmp_0", us: 412.3, steps: 12 };
const devices = ["CPUPlace(0)", "CPUPlace(1)"];

test("the slowest op is named with its device, and over how many steps it is the slowest", () => {
  assert.equal(
    slowestWords({ slowest }, devices),
    "slowest: mul fc_0.tmp_0 on CPUPlace(1), 412 µs (median of 12 steps)",
  );
  const once = { ...slowest, device: "CPUPlace(7)", us: 4.04, steps: 1 };
  assert.equal(
    slowestWords({ slowest: once }, devices),
    "slowest: mul fc_0.tmp_0 on CPUPlace(7), 4.0 µs (of one step)",
  );
  assert.match(slowestWords({ slowest: { ...slowest, device: -1 } }, devices), /0 across devices, 412/);
  assert.match(slowestWords({ slowest: { ...slowest, device: 5 } }, devices), /on device 5/);
});

test("without it nothing is said", () => {
  for (const sample of [null, {}, { slowest: null }]) assert.equal(slowestWords(sample, devices), "");
});
