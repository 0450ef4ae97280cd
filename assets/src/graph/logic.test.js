import assert from "node:assert/strict";
import test from "node:test";
import { Camera, RAIL } from "./camera.js";
import { hit, neighbour } from "./find.js";
import { Folds } from "./fold.js";
import { heatOf, part, scaledFor, summed } from "./heat.js";
import { layout } from "./layout.js";
import { shortened } from "./marks.js";
import { Model } from "./model.js";
import { Search } from "./search.js";
import { inference, nothing, sampleOf, training } from "../../fixtures/graph.js";
import { nodeTimes, Replay } from "./times.js";

const message = training({ devices: 2, layers: 3 });
const model = new Model(message);
const folds = new Folds(model);
const scene = layout(model, folds, folds.all());
const nodeOf = (label) => message.node.label.indexOf(label);

test("counts tell collectives by type", () => {
  const { kinds, collectives } = model.counts();
  assert.deepEqual(kinds, [20, 20, 6, 0, 3]);
  assert.deepEqual([...collectives], [["all_reduce", 3]]);
});

test("search finds parts of labels, types, layers and value names, and regular expressions", () => {
  const search = new Search(model);
  search.find("ALL_RED");
  assert.equal(search.text(), "3 found");
  assert.equal(search.step(1), search.nodes[0]);
  assert.equal(search.text(), "1 of 3");
  assert.equal(search.step(-1), search.nodes[2]);
  search.find("^mul$");
  assert.equal(search.nodes.length, 6);
  search.find("mean_0.tmp_0");
  assert.deepEqual(
    search.nodes.map((n) => model.type(n)),
    ["mean", "mean", "mean_grad", "mean_grad"],
  );
  search.find("(mul");
  assert.equal(search.text(), "nothing found");
  assert.equal(search.step(1), null);
  search.find(" ");
  assert.equal(search.text(), "");
});

test("the time of a span is divided among its nodes, spans of unknown nodes count for none", () => {
  const sample = sampleOf(message);
  assert.equal(nodeTimes(model, sample)[6], 70);
  sample.members = { span: Int32Array.of(6, 6), node: Int32Array.of(1, 2) };
  sample.spans.node[6] = -1;
  const times = nodeTimes(model, sample);
  assert.ok(Number.isNaN(times[6]));
  assert.deepEqual([times[1], times[2]], [20 + 35, 30 + 35]);
});

test("samples of another graph say nothing", () => {
  assert.equal(nodeTimes(model, { ...sampleOf(message), graph: 99 }), null);
  assert.equal(nodeTimes(model, null), null);
});

test("a replay shows each node while it ran", () => {
  const sample = sampleOf(message);
  const replay = new Replay(model, sample);
  const nodes = new Set();
  for (let k = 0; k < 200; k++) replay.running(k / 200).forEach((n) => nodes.add(n));
  assert.equal(nodes.size, model.count);
  assert.ok(replay.running(0).length < 5);
});

test("heat goes from the smallest to the largest value; a folded box has the sum of its ops", () => {
  const heat = heatOf("bytes", model, null);
  assert.deepEqual([heat.low, heat.high], [1024, 5120]);
  assert.deepEqual([part(heat, 1024), part(heat, 5120)], [0, 1]);
  assert.equal(summed({ values: [1, NaN, 7, 2] }, [0, 1, 2, 3]), 10);
  assert.ok(Number.isNaN(summed({ values: [NaN] }, [0])));
  const folded = scaledFor({ ...heat, values: [1, 4, NaN, 2] }, [{ nodes: [0, 1] }, { nodes: [2] }, { nodes: [3] }]);
  assert.deepEqual([folded.low, folded.high], [2, 5]);
  assert.equal(part(heat, 1e9), 1);
  assert.equal(heatOf("time", model, null), null);
  assert.equal(heatOf("bytes", new Model(nothing()), null), null);
});

test("a long chain is not fitted so small that it cannot be read", () => {
  const camera = new Camera();
  camera.size(900, 400);
  camera.fit({ width: 190_000, height: 300 });
  assert.ok(camera.k >= 0.7);
  assert.equal(camera.x, RAIL);
  camera.fit({ width: 300, height: 200 });
  assert.ok(camera.k > 1 && 300 * camera.k < 900);
});

test("zoom leaves the point under the pointer where it is, and what is shown is in sight", () => {
  const camera = new Camera();
  camera.size(900, 400);
  camera.fit({ width: 9000, height: 900 });
  const before = camera.at(400, 200);
  camera.zoom(1.5, 400, 200);
  assert.ok(Math.abs(camera.at(400, 200).x - before.x) < 1e-6);
  const box = { x: 8000, y: 800, w: 100, h: 32 };
  camera.show(box);
  const { left, right, top, bottom } = camera.window();
  assert.ok(box.x > left && box.x + box.w < right && box.y > top && box.y + box.h < bottom);
});

test("what is under a point: boxes, stems, tags of open groups", () => {
  scene.items.forEach((item, at) => assert.equal(hit(scene, { x: item.x + 5, y: item.y + 5 }).item, at));
  const bar = scene.items.findIndex((item) => item.stem);
  const { x, marks } = scene.items[bar].stem;
  assert.equal(hit(scene, { x, y: marks[0].y }).item, bar);
  const { tag } = scene.frames[0];
  assert.equal(hit(scene, { x: tag.x + 3, y: tag.y + 3 }).frame, scene.frames[0]);
  assert.equal(hit(scene, { x: -500, y: -500 }), null);
});

test("arrow keys go along edges and to other lanes", () => {
  const at = (label) => scene.itemOf[nodeOf(label)];
  assert.equal(neighbour(scene, at("mul fc_0.tmp_0"), "ArrowRight"), at("elementwise_add fc_0.tmp_1"));
  assert.equal(neighbour(scene, at("elementwise_add fc_0.tmp_1"), "ArrowLeft"), at("mul fc_0.tmp_0"));
  assert.equal(neighbour(scene, at("mul fc_0.tmp_0"), "ArrowLeft"), at("mul fc_0.tmp_0"));
  const below = scene.items[neighbour(scene, at("mul fc_0.tmp_0"), "ArrowDown")];
  assert.ok(below.y > scene.items[at("mul fc_0.tmp_0")].y);
});

test("names keep both ends when shortened", () => {
  assert.equal(shortened("relu", 100, 6), "relu");
  const short = shortened("softmax_with_cross_entropy_grad", 96, 6);
  assert.equal(short.length, 16);
  assert.ok(short.startsWith("softmax") && short.endsWith("grad"));
});

test("the writer of a value is found, what is fed has none", () => {
  const plain = new Model(inference());
  const [fed] = plain.reads.of(0);
  assert.equal(plain.writer[fed], -1);
  assert.equal(plain.writer[plain.reads.of(1)[0]], 0);
  assert.deepEqual([...plain.readers.of(plain.writes.of(0)[0])], [1]);
});
