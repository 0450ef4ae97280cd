// The lines between what is drawn: the edges of the nodes in two boxes are one line.
import { lists } from "./model.js";

// {source, target: items; order: 1 where no data go along; count: edges; out, in: lines of every item}.
export function joined(model, items, itemOf) {
  const { source, target, order } = model.message.edge;
  const found = new Map();
  const [from, to, dashed, count] = [[], [], [], []];
  for (let k = 0; k < source.length; k++) {
    const [a, b] = [itemOf[source[k]], itemOf[target[k]]];
    if (a === b) continue;
    const key = a * items.length + b;
    const at = found.get(key);
    if (at === undefined) {
      found.set(key, from.push(a) - 1);
      to.push(b);
      dashed.push(order[k]);
      count.push(1);
    } else {
      count[at]++;
      dashed[at] &= order[k];
    }
  }
  const all = from.map((_, k) => k);
  return { source: from, target: to, order: dashed, count, out: lists(items.length, from, all), in: lists(items.length, to, all) };
}
