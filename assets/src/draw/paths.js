// Path strings for charts: one <path> per line or band however many points it has. Half pixels are exact enough, and
// points that fall on the pixel of the one before are left out.

const half = (value) => Math.round(value * 2) / 2;

// Writing fractions is most of the work: those that lie in a chart are written once.
const WRITTEN = Array.from({ length: 4096 }, (_, i) => String(i / 2));
const text = (halves) => WRITTEN[halves] ?? String(halves / 2);

// A line that breaks where a value has no place.
export function linePath(xs, ys, x, y) {
  let path = "";
  let open = false;
  let lastX = NaN;
  let lastY = NaN;
  for (let i = 0; i < xs.length; i++) {
    const py = Math.round(y(ys[i]) * 2);
    if (!Number.isFinite(py)) {
      open = false;
      continue;
    }
    const px = Math.round(x(xs[i]) * 2);
    if (open && px === lastX && py === lastY) continue;
    path += open ? "L" + text(px) + " " + text(py) : `M${text(px)} ${text(py)}h0`;
    open = true;
    lastX = px;
    lastY = py;
  }
  return path;
}

// The points of a line that have no neighbour, which draws nothing of them: dots, where line caps are round.
export function lonePath(xs, ys, x, y) {
  const px = (i) => Math.round(x(xs[i]) * 2);
  const py = (i) => Math.round(y(ys[i]) * 2);
  const isThere = (i) => i >= 0 && i < xs.length && Number.isFinite(py(i));
  let path = "";
  for (let i = 0; i < xs.length; i++)
    if (isThere(i) && !isThere(i - 1) && !isThere(i + 1)) path += `M${text(px(i))} ${text(py(i))}h0`;
  return path;
}

// The area between two columns; parts without values are left out. Of all points on one pixel column the outermost
// count: a band is as wide as what it covers.
export function bandPath(xs, lows, highs, x, y) {
  let path = "";
  let part = [];
  const close = () => {
    if (part.length) path += outline(part);
    part = [];
  };
  for (let i = 0; i < xs.length; i++) {
    const top = y(highs[i]);
    const bottom = y(lows[i]);
    if (!Number.isFinite(top) || !Number.isFinite(bottom)) {
      close();
      continue;
    }
    const px = Math.round(x(xs[i]));
    const last = part[part.length - 1];
    if (last && last.px === px) {
      last.top = Math.min(last.top, top);
      last.bottom = Math.max(last.bottom, bottom);
    } else part.push({ px, top, bottom });
  }
  close();
  return path;
}

function outline(part) {
  let there = "";
  let back = "";
  for (const { px, top, bottom } of part) {
    there += (there ? "L" : "M") + px + " " + text(Math.round(top * 2));
    back = "L" + px + " " + text(Math.round(bottom * 2)) + back;
  }
  return `${there}${back}Z`;
}

// Small marks on one height: "line" (from there down to `bottom`), "triangle", "pin" (both), "cross", "up" and "down" (arrows at a border). One path for all
// of them.
export function markPath(shape, xs, x, top, bottom) {
  let path = "";
  let last = NaN;
  for (let i = 0; i < xs.length; i++) {
    const px = half(x(xs[i]));
    if (!Number.isFinite(px) || px === last) continue;
    last = px;
    if (shape === "triangle") path += `M${px - 3.5} ${top}h7l-3.5 6z`;
    else if (shape === "up") path += `M${px - 4} ${top + 7}h8l-4 -7z`;
    else if (shape === "down") path += `M${px - 4} ${top - 7}h8l-4 7z`;
    else if (shape === "cross") path += `M${px - 3} ${top}l6 6m0 -6l-6 6`;
    else if (shape === "pin") path += `M${px - 3.5} ${top}h7l-3.5 6zM${px} ${top + 6}V${bottom}`;
    else path += `M${px} ${top}V${bottom}`;
  }
  return path;
}
