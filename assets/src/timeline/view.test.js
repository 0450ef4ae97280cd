import assert from "node:assert/strict";
import { test } from "node:test";
import { scale, View } from "./view.js";

test("zooming keeps the time under the pointer where it is", () => {
  const view = new View(1000);
  const before = scale(view, 100, 500).x(300);
  view.zoom(0.25, 300);
  assert.equal(view.width, 250);
  assert.ok(Math.abs(scale(view, 100, 500).x(300) - before) < 1e-9);
});

test("the view never leaves the step", () => {
  const view = new View(1000);
  view.show(400, 500);
  view.pan(-9999);
  assert.deepEqual([view.from, view.to], [0, 100]);
  view.pan(9999);
  assert.deepEqual([view.from, view.to], [900, 1000]);
  view.zoom(99);
  assert.ok(view.isWhole);
  view.zoom(1e-12);
  assert.ok(view.width > 0);
});

test("the next step keeps a zoom, and the whole whole", () => {
  const view = new View(1000);
  view.resize(800);
  assert.deepEqual([view.from, view.to], [0, 800]);
  view.show(600, 700);
  view.resize(1200);
  assert.deepEqual([view.from, view.to], [600, 700]);
  view.resize(650);
  assert.deepEqual([view.from, view.to], [550, 650]);
});

test("what is in sight already is not moved to", () => {
  const view = new View(1000);
  view.show(100, 200);
  view.reveal(150, 160);
  assert.equal(view.from, 100);
  view.reveal(500, 520);
  assert.deepEqual([view.from, view.to], [460, 560]);
});

test("pixels and times are inverse", () => {
  const view = new View(1000);
  view.show(200, 300);
  const { x, time } = scale(view, 120, 700);
  assert.equal(x(200), 120);
  assert.equal(x(300), 820);
  assert.ok(Math.abs(time(x(234)) - 234) < 1e-9);
});
