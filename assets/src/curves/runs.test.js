import assert from "node:assert/strict";
import { test } from "node:test";
import { Choice, listed, seriesNames } from "./runs.js";

const store = (ids, more = []) => ({
  state: { runs: ids.map((id) => ({ id, label: `run ${id}`, state: "done" })) },
  curves: new Map(
    [...ids, ...more].map((id) => [id, { label: `run ${id}`, series: { loss: {}, [`only ${id}`]: {} } }]),
  ),
});

test("a run keeps its colour when others come and go", () => {
  const choice = new Choice();
  const [, second] = listed(store(["a", "b"]), choice);
  const [still] = listed(store(["b", "c"]), choice);
  assert.deepEqual([still.color, still.dash], [second.color, second.dash]);
});

test("no two of sixteen runs look alike", () => {
  const choice = new Choice();
  const looks = Array.from({ length: 16 }, (_, i) => JSON.stringify(choice.style(i)));
  assert.equal(new Set(looks).size, 16);
});

test("the newest are shown, and what was ticked by hand", () => {
  const ids = Array.from({ length: 9 }, (_, i) => String(i));
  const choice = new Choice();
  choice.runs.set("0", true);
  choice.runs.set("8", false);
  const shown = listed(store(ids), choice)
    .filter((run) => run.shown)
    .map(({ id }) => id);
  assert.deepEqual(shown, ["0", "3", "4", "5", "6", "7"]);
});

test("curves that no state has named yet are there too", () => {
  assert.deepEqual(
    listed(store(["a"], ["z"]), new Choice()).map(({ id }) => id),
    ["a", "z"],
  );
  assert.deepEqual(listed({ state: null, curves: new Map() }, new Choice()), []);
});

test("the names of series in the order of their appearance", () => {
  assert.deepEqual(seriesNames(listed(store(["a", "b"]), new Choice())), ["loss", "only a", "only b"]);
});
