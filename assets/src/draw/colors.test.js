import assert from "node:assert/strict";
import test from "node:test";
import { opKind, ROLES } from "./colors.js";

test("what other processes take part in is told by its type, all else by its role", () => {
  assert.equal(opKind("send", "RPC"), "server");
  assert.equal(opKind("recv", "Backward"), "server");
  assert.equal(opKind("c_allreduce_sum", "Optimize"), "collective");
  assert.equal(opKind("sgd", "Optimize"), "optimize");
  assert.equal(opKind("mul_grad", "Backward"), "backward");
  assert.equal(opKind("mul", "RPC"), "forward");
  assert.equal(new Set(Object.values(ROLES)).size, 5);
});
