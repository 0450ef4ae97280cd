import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Clicks } from "./clicks.js";

function begun() {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  const sent = [];
  return {
    sent,
    clicks: new Clicks(
      (message) => sent.push(message),
      () => {},
    ),
  };
}

const RUN = { id: "2", state: "running" };

for (const name of ["pause", "stop"]) {
  test(`${name} is kept as long as the run goes on, and acknowledged`, () => {
    const { sent, clicks } = begun();
    clicks.press(name, {}, RUN);
    mock.timers.tick(300);
    assert.match(clicks.words, new RegExp(`busy with a cell; ${name} is kept`));
    mock.timers.tick(3_600_000);
    assert.match(clicks.words, /is kept/);
    const [{ id, run, ...click }] = sent;
    assert.deepEqual([run, "valid" in click], ["2", false]);
    clicks.heard({ type: "state", sent: 1, run: { ...RUN, step: 9 } });
    assert.match(clicks.words, /is kept/);
    clicks.heard({ type: "heard", id, late: false, why: null });
    assert.match(clicks.words, new RegExp(`has heard ${name}`));
    clicks.heard({ type: "state", sent: 1, run: RUN });
    assert.match(clicks.words, /has heard/);
    clicks.heard({ type: "state", sent: 1, run: { id: "2", state: "paused" } });
    assert.equal(clicks.words, "");
    assert.equal(clicks.waiting.size, 0);
  });
}

test("what was meant for a run that has ended is not done to another, and the reason is said", () => {
  const { sent, clicks } = begun();
  clicks.press("stop", {}, RUN);
  clicks.heard({ type: "heard", id: sent[0].id, late: true, why: "the run that it was meant for has ended" });
  assert.equal(clicks.words, "stop was not done: the run that it was meant for has ended.");
});

test("what begins something is given up", () => {
  const { sent, clicks } = begun();
  clicks.press("run", { steps: 3 });
  assert.equal(sent[0].valid, 5);
  mock.timers.tick(5000);
  assert.match(clicks.words, /^run was not done: the kernel was busy for 5 seconds/);
  assert.equal(clicks.waiting.size, 0);
});
