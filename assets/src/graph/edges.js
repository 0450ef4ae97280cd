// The lines between what is drawn: the edges of the nodes in two boxes are one line.
import { lists } from "./model.js";

// {source, target: items; order: 1 where no data go along; out, in: lines of every item}.
export function joined(model, items, itemOf) {
  const { source, target, order } = model.message.edge;
  const bySource = lists(
    items.length,
    source.map((n) => itemOf[n]),
    source.map((_, k) => k),
  );
  const last = new Int32Array(items.length).fill(-1); // the newest line to each item
  const [from, to, dashed] = [[], [], []];
  for (let a = 0; a < items.length; a++) {
    for (const k of bySource.of(a)) {
      const b = itemOf[target[k]];
      if (a === b) continue;
      const line = last[b];
      if (line >= 0 && from[line] === a) {
        dashed[line] &= order[k];
        continue;
      }
      last[b] = from.push(a) - 1;
      to.push(b);
      dashed.push(order[k]);
    }
  }
  const all = from.map((_, k) => k);
  return {
    source: from,
    target: to,
    order: dashed,
    out: lists(items.length, from, all),
    in: lists(items.length, to, all),
  };
}
