// A row per device, a column per feed: shape, dtype, bytes and what is in it.
import { deviceColor } from "../draw/colors.js";
import { h } from "../draw/dom.js";
import { bytes, count, shape } from "../draw/numbers.js";
import { preview } from "./previews.js";
import { arrayBytes } from "./split.js";

export function feedTable(feeds) {
  const head = feeds.names.map((name) =>
    h(
      "th",
      { scope: "col" },
      h("span", { class: "wb-code" }, name),
      " ",
      h("span", { class: "wb-faint" }, feeds.dtypes?.[name] ?? ""),
    ),
  );
  const rows = feeds.devices.map((device, i) =>
    h("tr", {}, deviceCell(feeds, device, i), ...feeds.names.map((name) => cell(feeds, name, i))),
  );
  return h(
    "table",
    { class: "wb-feed-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "device"), ...head)),
    h("tbody", {}, ...rows),
  );
}

function deviceCell(feeds, device, i) {
  const most = Math.max(0, ...feeds.names.map((name) => feeds.rows[name]?.[i] ?? 0));
  const size = feeds.nbytes?.[i];
  const facts = [`${count(most)} row${most === 1 ? "" : "s"}`, size == null ? null : bytes(size)]
    .filter(Boolean)
    .join(", ");
  const cell = h("th", { scope: "row" }, h("div", {}, device), h("div", { class: "wb-faint" }, facts));
  cell.style.borderLeftColor = deviceColor(i);
  return cell;
}

function cell(feeds, name, i) {
  const dims = feeds.shapes?.[name]?.[i];
  const size = arrayBytes(dims, feeds.dtypes?.[name]);
  const facts = [dims ? shape(dims) : null, size == null ? null : bytes(size)].filter(Boolean);
  return h(
    "td",
    { "data-about": `${name} on ${feeds.devices[i]}` },
    ...facts.map((text) => h("div", { class: "wb-code wb-faint" }, text)),
    preview(feeds.previews?.[name]?.[i], deviceColor(i)),
  );
}

// The previews of a table for a saved picture, one below the other; numbers are said in the title.
export function previewParts(table) {
  return [...table.querySelectorAll("td")].flatMap((td) => {
    const drawn = [...td.querySelectorAll("canvas, svg")];
    const about = [
      td.dataset.about,
      ...[...td.children].map((child) => (child.querySelector("svg") ? "" : child.textContent)),
    ];
    const title = about.filter(Boolean).join("  ");
    return drawn.length ? drawn.map((element, i) => ({ title: i ? "" : title, element })) : [{ title }];
  });
}
