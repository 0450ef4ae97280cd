import assert from "node:assert/strict";
import { test } from "node:test";
import { decoded, scopesMessage } from "../../fixtures/timeline.js";
import { deviceOf, filtered } from "./live.js";
import { heldWords, rowsOf, words } from "./totals.js";

const total = (strategy, ...states) => ({
  strategy,
  devices: states.map((state) => ({ parameters: 100, state, gradients: 100 })),
});

test("the other strategy's state is told as a share, or as so many times", () => {
  const [sums, shares] = [total("AllReduce", 80, 80), total("Reduce", 40, 40)];
  assert.equal(words([sums, shares]), "Reduce would update 50 % of the optimizer state per device.");
  assert.equal(words([shares, sums]), "AllReduce would update 2 times the optimizer state per device.");
});

test("uneven shares are told by the largest", () => {
  const uneven = total("Reduce", 50, 30);
  assert.equal(
    words([total("AllReduce", 80, 80), uneven]),
    "Reduce would update at most 63 % of the optimizer state per device.",
  );
});

test("no state, one device and nothing at all have words of their own", () => {
  assert.match(words([total("AllReduce", 0, 0), total("Reduce", 0, 0)]), /keeps no state/);
  assert.match(words([total("AllReduce", 80)]), /one device/);
  assert.match(words([total("AllReduce", 80, 80), total("Reduce", 80, 80)]), /just as much/);
  assert.equal(words([total("AllReduce", 80, 80)]), "");
  assert.equal(words([]), "");
});

test("what is held is told beside what is updated: devices may hold it in common", () => {
  const held = (kept, shared, devices = ["a", "b"]) => heldWords({ kept, shared }, devices);
  assert.equal(held(2048, 2048), "Held: 2.0 KiB of parameters and optimizer state, all of it shared by devices.");
  assert.match(held(2048, 0), /, none of it shared by devices/);
  assert.match(held(2048, 1024), /, 1.0 KiB of it shared by devices/);
  assert.match(held(2048, 0, ["a"]), /optimizer state\.$/);
  assert.equal(held(0, 0), "");
});

test("devices that hold the same share a bar", () => {
  const devices = ["CPUPlace(0)", "CPUPlace(1)"];
  assert.deepEqual(
    rowsOf(total("AllReduce", 80, 80), devices).map(({ label }) => label),
    ["each of 2 devices"],
  );
  assert.deepEqual(
    rowsOf(total("Reduce", 50, 30), devices).map(({ label }) => label),
    devices,
  );
  assert.deepEqual(
    rowsOf(total("Reduce", 50), devices).map(({ label }) => label),
    ["CPUPlace(0)"],
  );
});

test("live variables are filtered by device and kind, the largest first", () => {
  const { live, devices } = decoded(scopesMessage({ devices: 3 }));
  assert.equal(filtered(live, devices, {}).length, 18);
  const matching = filtered(live, devices, { device: "CPUPlace(2)", kind: "parameter" });
  assert.deepEqual(
    matching.map(({ name }) => name),
    ["fc_0.w_0", "fc_1.w_0"],
  );
  assert.ok(matching.every((value) => deviceOf(value, devices) === "CPUPlace(2)"));
});

test("a device is a position or a text", () => {
  assert.equal(deviceOf({ device: 1 }, ["a", "b"]), "b");
  assert.equal(deviceOf({ device: "CPUPlace(1)" }, []), "CPUPlace(1)");
  assert.equal(deviceOf({ device: 4 }, []), "device 4");
});
