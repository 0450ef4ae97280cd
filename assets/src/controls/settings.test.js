import assert from "node:assert/strict";
import { test } from "node:test";
import { SETTINGS, written } from "./settings.js";

const parse = (name, text) => SETTINGS.find((setting) => setting.name === name).parse(text);

test("every setting of the protocol has a field", () => {
  const names = [
    "program",
    "data",
    "valid",
    "devices",
    "reduce_strategy",
    "num_threads",
    "num_iteration_per_drop_scope",
    "batch_size",
    "learning_rate",
    "steps",
    "epochs",
    "checkpoints",
    "stop_on_nan",
  ];
  assert.deepEqual(
    SETTINGS.map(({ name }) => name),
    names,
  );
});

test("devices are a whole number of at least one", () => {
  assert.deepEqual(parse("devices", "4"), { value: 4 });
  for (const text of ["0", "-1", "1.5", "two", "", "1e2", "0x10"]) assert.ok(parse("devices", text).problem, text);
});

test("a learning rate may have an exponent and is above zero", () => {
  assert.deepEqual(parse("learning_rate", "1e-3"), { value: 0.001 });
  for (const text of ["0", "-0.1", "fast", "Infinity"]) assert.ok(parse("learning_rate", text).problem, text);
});

test("what is left empty is left to others", () => {
  for (const name of [
    "num_threads",
    "batch_size",
    "learning_rate",
    "steps",
    "epochs",
    "valid",
    "checkpoints",
    "program",
  ]) {
    assert.deepEqual(parse(name, ""), { value: null }, name);
  }
  assert.equal(written(null), "");
});

test("zero means something where the strategy has it, and nothing elsewhere", () => {
  assert.deepEqual(parse("num_threads", "0"), { value: 0 });
  assert.deepEqual(parse("num_iteration_per_drop_scope", "0"), { value: 0 });
  assert.ok(parse("steps", "0").problem);
});
