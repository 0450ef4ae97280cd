import assert from "node:assert/strict";
import test from "node:test";
import { Folds } from "./fold.js";
import { bands } from "./bands.js";
import { layout } from "./layout.js";
import { COLLECTIVE, Model } from "./model.js";
import { operations } from "../../fixtures/operations.js";
import { convolutions, inference, nothing, training } from "../../fixtures/graph.js";

function laidOut(message, open = null) {
  const model = new Model(message);
  const folds = new Folds(model);
  return { model, folds, scene: layout(model, folds, open?.(folds) ?? folds.begin()) };
}

const all = (folds) => folds.all();

test("small graphs begin unfolded, large ones folded", () => {
  assert.equal(laidOut(inference()).scene.items.length, 16);
  const { model, scene } = laidOut(training({ layers: 20 }));
  assert.ok(scene.items.length < model.count / 10);
});

test("unfolded all the way every node is one item", () => {
  const { model, scene } = laidOut(training({ layers: 20 }), all);
  assert.equal(scene.items.length, model.count);
  assert.deepEqual(
    scene.items.map((item) => item.node).sort((a, b) => a - b),
    [...Array(model.count).keys()],
  );
});

test("every node belongs to one item, whatever is open", () => {
  const { folds, model } = laidOut(training({ layers: 7 }));
  for (const group of [...folds.groups.keys()]) {
    const { items, itemOf } = folds.visible(new Set([group]));
    assert.equal(
      items.reduce((sum, item) => sum + item.nodes.length, 0),
      model.count,
    );
    items.forEach((item, at) => item.nodes.forEach((n) => assert.equal(itemOf[n], at)));
  }
});

test("a graph without a fold is drawn op by op", () => {
  const { fold, ...message } = training({ layers: 20 });
  assert.ok(fold.title.length > 20);
  assert.equal(laidOut(message).scene.items.length, message.node.label.length);
});

test("a group says how many layers look like it, and what is in it", () => {
  const message = training({ layers: 20 });
  Object.assign(message.fold, { title: message.fold.title.map(() => "fc"), times: message.fold.times.fill(7) });
  const item = laidOut(message).scene.items.find(({ group }) => group);
  assert.deepEqual([item.title, item.detail], ["fc × 7", `${item.nodes.length} ops: some`]);
});

test("a group that others lie between has no frame of its own", () => {
  const message = inference({ layers: 3 }); // mul, add, relu of three layers, then softmax
  const fold = (node) => ({ ...message.fold, title: ["fc"], details: [[]], parent: [-1], times: [1], open: [1], node });
  const frames = (node) => laidOut({ ...message, fold: fold(node) }).scene.frames.length;
  assert.equal(frames([-1, 0, 0, 0, -1, -1, -1, -1, -1, -1]), 1);
  assert.equal(frames([-1, 0, 0, -1, 0, -1, -1, -1, -1, -1]), 0);
});

test("opening what is above a node makes it visible", () => {
  const { folds, model } = laidOut(training({ layers: 9 }));
  for (let n = 0; n < model.count; n++) {
    const { items, itemOf } = folds.visible(new Set(folds.above(n)));
    assert.equal(items[itemOf[n]].node, n);
  }
});

test("graphs of the same shape have the same groups, others do not", () => {
  const shape = (message) => new Folds(new Model(message)).shape();
  assert.equal(shape(training({ layers: 5 })), shape(training({ layers: 5, id: 77, title: "again" })));
  assert.notEqual(shape(training({ layers: 5 })), shape(training({ layers: 6 })));
  assert.notEqual(shape(training({ devices: 2, layers: 5 })), shape(training({ devices: 4, layers: 5 })));
});

test("edges go from left to right", () => {
  for (const message of [training({ layers: 6 }), convolutions(), inference()]) {
    for (const open of [all, () => new Set()]) {
      const { scene } = laidOut(message, open);
      scene.lines.source.forEach((a, k) =>
        assert.ok(scene.items[a].column < scene.items[scene.lines.target[k]].column),
      );
    }
  }
});

test("what waits for nothing stands next to what waits for it", () => {
  const message = inference({ layers: 4 });
  const last = message.node.label.length - 1;
  const keep = message.edge.target.map((target, k) => (target === last || message.edge.source[k] === last - 1 ? 0 : 1));
  message.edge = Object.fromEntries(
    Object.entries(message.edge).map(([name, column]) => [name, column.filter((_, k) => keep[k])]),
  );
  message.edge.source = Int32Array.of(...message.edge.source, last);
  message.edge.target = Int32Array.of(...message.edge.target, 10);
  message.edge.order = Uint8Array.of(...message.edge.order, 0);
  const { scene } = laidOut(message, all);
  assert.equal(scene.items[scene.itemOf[last]].column, scene.items[scene.itemOf[10]].column - 1);
});

test("boxes do not lie on each other", () => {
  for (const open of [null, all]) {
    const { scene } = laidOut(training({ devices: 3, layers: 6 }), open);
    const { items } = scene;
    for (let a = 0; a < items.length; a++) {
      for (let b = a + 1; b < items.length; b++) {
        const apart =
          items[a].x + items[a].w <= items[b].x ||
          items[b].x + items[b].w <= items[a].x ||
          items[a].y + items[a].h <= items[b].y ||
          items[b].y + items[b].h <= items[a].y;
        assert.ok(apart, `${items[a].title} and ${items[b].title}`);
      }
    }
  }
});

test("nodes lie in the band of their device; collectives between the bands, their stems reach all of them", () => {
  const { model, scene } = laidOut(training({ devices: 4, layers: 3 }), all);
  const band = (y) => scene.devices.find((each) => y > each.y && y < each.y + each.height)?.device ?? null;
  for (const item of scene.items) {
    const middle = item.y + item.h / 2;
    if (item.kind !== COLLECTIVE) assert.equal(band(middle), model.message.node.device[item.node]);
    else {
      assert.equal(band(middle), null);
      assert.ok(band(middle - 60) !== band(middle + 60));
      assert.deepEqual(
        item.stem.marks.map(({ y }) => band(y)),
        [0, 1, 2, 3],
      );
      assert.ok(item.stem.x < item.x);
    }
  }
});

test("lines from the forward to the backward lanes are skips, those along a lane are not", () => {
  const { model, scene } = laidOut(training({ devices: 1, layers: 4 }), all);
  const { lines, items } = scene;
  const lane = (at) => model.kind[items[at].node];
  let [skips, chain] = [0, 0];
  lines.source.forEach((a, k) => {
    const b = lines.target[k];
    if (lane(a) !== lane(b) && items[b].column > items[a].column + 1) skips += lines.skip[k];
    if (lane(a) === lane(b)) chain += 1 - lines.skip[k];
  });
  assert.ok(skips >= 8);
  assert.equal(chain, 12 + 12);
});

test("an order is found for graphs whose nodes come in any order, cycles of folded groups do no harm", () => {
  const message = inference({ layers: 3 });
  const flip = (n) => message.node.label.length - 1 - n;
  for (const side of ["source", "target"]) message.edge[side] = message.edge[side].map(flip);
  const { scene } = laidOut(message, all);
  scene.lines.source.forEach((a, k) => assert.ok(scene.items[a].column < scene.items[scene.lines.target[k]].column));
  const ring = inference({ layers: 3 });
  ring.edge.target[0] = 0;
  assert.ok(laidOut(ring, all).scene.width > 0);
});

test("what is fetched from several devices lies between them, on one device in its lane", () => {
  for (const devices of [1, 3]) {
    const { model, scene } = laidOut(training({ devices, layers: 2, fetch: true }));
    const fetch = scene.items.find((item) => item.title === "fetch");
    assert.equal(fetch.lane === model.shared, devices > 1);
    assert.deepEqual(fetch.devices, [...Array(devices).keys()]);
    assert.equal(model.counts().kinds[COLLECTIVE], devices > 1 ? 2 : 0);
  }
});

test("nothing to draw is drawn", () => {
  const { scene } = laidOut(nothing());
  assert.equal(scene.items.length, 0);
});

test("to fold and lay out a program of ten times as many layers is ten times the work, unfolded too", () => {
  const work = (layers) => {
    const message = training({ devices: 4, layers });
    return operations(() => laidOut(message, all)) / message.node.label.length;
  };
  const [few, many] = [work(20), work(200)];
  assert.ok(few > 10 && many < 1.1 * few, `${few}, ${many}`); // sorting takes a little more for each
});

test("bands of different processes stand farther apart than those of one", () => {
  const gaps = (process) => {
    const shared = 4 * COLLECTIVE;
    const [rows, deep] = [1, 0].map((each) => Array(shared + 1).fill(each));
    const { devices } = bands({ devices: ["a", "b", "c", "d"], process, shared }, rows, deep);
    return devices.slice(1).map(({ y }, k) => y - devices[k].y - devices[k].height);
  };
  const [plain, grouped] = [gaps([0, 0, 0, 0]), gaps([0, 0, 0, 1])];
  assert.deepEqual(grouped.slice(0, 2), plain.slice(0, 2));
  assert.ok(grouped[2] > plain[2]);
});
