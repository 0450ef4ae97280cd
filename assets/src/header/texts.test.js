import assert from "node:assert/strict";
import { test } from "node:test";
import { counter, deviceList, named, rateText, stateWords } from "./texts.js";

const names = (n) => Array.from({ length: n }, (_, i) => `CPUPlace(${i})`);
const texts = (run) => counter(run).map(([text]) => text);

test("few devices are named, many by the first and the last", () => {
  assert.equal(deviceList(names(1)), "1 device: CPUPlace(0)");
  assert.equal(deviceList(names(8)), "8 devices: CPUPlace(0) to CPUPlace(7)");
  assert.equal(deviceList([]), "no device yet");
});

test("a running run says how fast it is and how long it will take", () => {
  const run = { state: "running", step: 1200, steps: 5000, seconds: 12.34, rate: 98.4, eta: 38 };
  assert.deepEqual(texts(run), ["step 1,200 of 5,000", "98 steps/s", "12.3 s in all", "about 38.0 s left"]);
});

test("a run without an end has no time left, one that stands no rate", () => {
  assert.deepEqual(texts({ state: "running", step: 3, steps: null, seconds: 1, rate: 0.5, eta: null }), [
    "step 3",
    "0.50 steps/s",
    "1.0 s in all",
  ]);
  assert.deepEqual(texts({ state: "paused", step: 3, steps: 9, seconds: 0.27, rate: 0, eta: 4 }), [
    "step 3 of 9",
    "270 ms in all",
  ]);
});

test("a last value that is no number is named", () => {
  assert.deepEqual([0.25, null, "inf", NaN].map(named), ["0.25", "NaN", "inf", "NaN"]);
  assert.equal(rateText(undefined), "–");
  assert.equal(rateText(12345.6), "12,346");
});

test("a run with a NaN in it does not read as if all were well", () => {
  assert.equal(stateWords({ state: "done", nan: { title: "NaN from step 27" } }), "done, NaN from step 27");
  assert.equal(stateWords({ state: "running", nan: null }), "running");
  assert.equal(stateWords(null), "");
});
