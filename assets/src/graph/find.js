// What lies where in a scene, and what lies next to what.

// The columns that a stretch of x touches: [first, last + 1].
export function columnsIn({ columns }, left, right) {
  const { x } = columns;
  const first = after(x, left) - 1;
  return [Math.max(0, first), after(x, right)];
}

// How many of the ascending numbers are at most `limit`.
function after(numbers, limit) {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const mid = (low + high) >> 1;
    if (numbers[mid] <= limit) low = mid + 1;
    else high = mid;
  }
  return low;
}

const inside = (box, { x, y }, pad = 0) =>
  x >= box.x - pad && x <= box.x + box.w + pad && y >= box.y - pad && y <= box.y + box.h + pad;

// {item} or {frame} (by its tag) under a point, null where there is nothing.
export function hit(scene, point) {
  const frame = scene.frames.find(({ tag }) => inside(tag, point));
  if (frame) return { frame };
  // A column's collectives have their stems in the gutter before it.
  const [first, end] = columnsIn(scene, point.x, point.x + 60);
  for (let column = first; column < end; column++) {
    for (const at of scene.columns.members[column]) {
      if (inside(scene.items[at], point) || onStem(scene.items[at], point)) return { item: at };
    }
  }
  return null;
}

function onStem({ stem }, { x, y }) {
  return stem && Math.abs(x - stem.x) <= 4 && y >= stem.top - 4 && y <= stem.bottom + 4;
}

// Where an arrow key leads from an item: along a line, or to the nearest box of the lane above or below.
export function neighbour(scene, at, key) {
  if (key === "ArrowRight") return along(scene, at, scene.lines.out.of(at), scene.lines.target);
  if (key === "ArrowLeft") return along(scene, at, scene.lines.in.of(at), scene.lines.source);
  return beside(scene, at, key === "ArrowUp" ? -1 : 1);
}

// Of the ends of an item's lines that with data, in its own lane, nearest.
function along({ items, lines }, at, numbers, ends) {
  const cost = (k) =>
    (lines.order[k] ? 1e6 : 0) +
    (items[ends[k]].lane === items[at].lane ? 0 : 1e3) +
    Math.abs(items[ends[k]].column - items[at].column);
  let best = -1;
  for (const k of numbers) if (best < 0 || cost(k) < cost(best)) best = k;
  return best < 0 ? at : ends[best];
}

function beside({ items }, at, step) {
  const from = items[at];
  let best = at;
  let least = Infinity;
  for (let k = 0; k < items.length; k++) {
    const down = (items[k].y - from.y) * step;
    if (down < 1) continue;
    // The next row counts more than the distance along it.
    const cost = down * 20 + Math.abs(items[k].x - from.x);
    if (cost < least) [best, least] = [k, cost];
  }
  return best;
}
