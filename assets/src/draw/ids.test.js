import assert from "node:assert/strict";
import { test } from "node:test";

test("two dashboards of one page, each with a copy of the module, give no id twice", async () => {
  const copies = await Promise.all([import("./ids.js?first"), import("./ids.js?second")]);
  const ids = copies.flatMap(({ newId }) => [newId("setting"), newId("setting"), newId("switch")]);
  assert.equal(new Set(ids).size, 6);
  assert.ok(ids.every((id) => /^wb-(setting|switch)-\w+-\d+$/.test(id)));
});
