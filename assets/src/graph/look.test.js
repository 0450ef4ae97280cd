import assert from "node:assert/strict";
import test from "node:test";
import { HEAT } from "../draw/colors.js";
import { contrast, mixed, rgb } from "../draw/contrast.js";
import { Folds } from "./fold.js";
import { heatOf } from "./heat.js";
import { layout } from "./layout.js";
import { describeItem, Look } from "./look.js";
import { Model } from "./model.js";
import { Search } from "./search.js";
import { training } from "../../fixtures/graph.js";

const message = training({ devices: 2, layers: 20 });
message.fold.title[0] = "fc";
message.fold.times[0] = 20;
const model = new Model(message);
const folds = new Folds(model);
const scene = layout(model, folds, folds.begin());
const at = (title) => scene.items.findIndex((item) => item.title === title);

test("boxes and ops are described in words", () => {
  const first = describeItem(model, scene, at("fc × 20"));
  assert.equal(first, "fc × 20, 60 folded forward ops on CPUPlace(0); Enter expands");
  const mean = describeItem(model, scene, at("mean"));
  assert.equal(mean, "mean mean_0.tmp_0, forward on CPUPlace(0), layer mean_0, 1 edges in, 1 out");
  assert.ok(describeItem(model, scene, at("all all_reduce")).includes("on CPUPlace(0), CPUPlace(1)"));
});

test("a folded box is a hit when one of its ops is, all else is dimmed", () => {
  const search = new Search(model);
  search.find("relu fc_7.tmp_2");
  const look = new Look(scene, { search });
  assert.equal(look.dim(at("fc × 20")), false);
  assert.equal(look.dim(at("mean")), true);
  assert.equal(new Look(scene).dim(at("mean")), false);
});

test("long lines are shown for what is selected or when all are asked for", () => {
  const skip = scene.lines.skip.indexOf(1);
  const look = new Look(scene, { selected: scene.items[scene.lines.source[skip]].nodes[0] });
  assert.equal(look.shows(skip), false);
  assert.ok(look.near.includes(skip));
  assert.equal(new Look(scene, { all: true }).shows(skip), true);
});

test("heat has a text besides its colour", () => {
  const look = new Look(scene, { heat: heatOf("bytes", model, null), back: "#fff" });
  const sum = scene.items[at("fc × 20")].nodes.reduce((total, n) => total + model.message.node.bytes[n], 0);
  assert.equal(look.warm(at("fc × 20")).text, `${(sum / 1024).toFixed(1)} KiB`); // of all that are folded
  assert.equal(new Look(scene).warm(0), null);
});

// The share of the hot colour in a fill, as the browser will read it.
const filled = (fill, back) => (fill === back ? rgb(back) : mixed(HEAT, back, Number(/ (\d+)%/.exec(fill)[1]) / 100));

test("letters on every heat can be read, in light and dark", () => {
  const values = Float64Array.from(scene.items[0].nodes.length ? model.message.node.bytes : [], (_, n) => 1.3 ** n);
  for (const back of ["#fff", "#ffffff", "#111", "#212121", "rgb(30, 30, 46)", "rgb(128, 128, 128)"]) {
    const heat = { values, low: 1, high: 1.3 ** (values.length - 1), text: String };
    const look = new Look(scene, { heat, back });
    scene.items.forEach((_, item) => {
      const { fill, ink } = look.warm(item);
      assert.ok(contrast(rgb(ink), filled(fill, back)) >= 4.5, `${ink} on ${fill}`);
    });
    const unknown = new Look(scene, { heat: { ...heat, values: values.map(() => NaN) }, back }).warm(0);
    assert.ok(contrast(rgb(unknown.ink), rgb(back)) >= 4.5);
  }
  assert.ok(contrast(rgb("#ffffff"), rgb(HEAT)) < 4.5); // so that this can fail
});
