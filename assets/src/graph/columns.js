// The columns of the ops as a table, for those who rather read; the source is {model, times}.
import { bytes, seconds } from "../draw/numbers.js";

export const COLUMNS = [
  { name: "number", of: (_, n) => n, numeric: true },
  { name: "type", of: ({ model }, n) => model.type(n) },
  { name: "result", of: ({ model }, n) => model.result(n) },
  { name: "device", of: ({ model }, n) => model.placeText(n) },
  { name: "role", of: ({ model }, n) => model.roleText(n) },
  { name: "layer", of: ({ model }, n) => model.layer(n) },
  { name: "time", of: ({ times }, n) => times?.[n] ?? NaN, text: timeText, numeric: true, falling: true },
  {
    name: "bytes",
    of: ({ model }, n) => model.bytes(n),
    text: ({ model }, n) => bytes(model.bytes(n)),
    numeric: true,
    falling: true,
  },
  { name: "line", of: ({ model }, n) => model.site(n) ?? "" },
];

function timeText({ times }, n) {
  return Number.isFinite(times?.[n]) ? seconds(times[n] / 1e6) : "–";
}
