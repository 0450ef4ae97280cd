// The bands of the devices, one under the other, with what they do together between them; below those of the parameter
// servers, with what goes to several of them above.
import { COLLECTIVE } from "./model.js";

export const ROW = 42; // height of a row, and of the box in it
export const BOX = 32;
const GAP = 16; // between bands
const BETWEEN = 18; // more, between those of different processes
const INSET = 7; // above and below the boxes of a lane
const TAG = 15;
const TEXTS = 66; // height of a server's band at least: its name and port, what is pushed, what is pulled

// `rows` and `deep` (levels of open groups) of every lane; lanes without rows are left out.
// Gives lanes {y of the first row, rows, top, height} and devices {device, y, height}; servers count as devices.
export function bands(model, rows, deep) {
  const lanes = Array.from(rows, (count) => ({ rows: count, y: 0, top: 0, height: 0 }));
  const count = Math.max(1, model.devices.length);
  const middle = Math.ceil(count / 2);
  const devices = [];
  let y = 0;
  const put = (lane) => {
    if (!lanes[lane].rows) return;
    const above = INSET + TAG * deep[lane];
    const height = above + lanes[lane].rows * ROW - (ROW - BOX) + INSET;
    Object.assign(lanes[lane], { top: y, y: y + above, height });
    y += height;
  };
  for (let device = 0; device < count; device++) {
    const start = y;
    for (let kind = 0; kind < COLLECTIVE; kind++) put(COLLECTIVE * device + kind);
    if (y > start) devices.push({ device, y: start, height: y - start });
    if (y > start) y += GAP;
    if (device + 1 < count && model.process?.[device] !== model.process?.[device + 1]) y += BETWEEN;
    if (device + 1 !== middle || !rows[model.shared]) continue;
    put(model.shared);
    y += GAP;
  }
  const servers = model.servers ?? [];
  if (servers.length) y += BETWEEN;
  if (servers.length && rows[model.among]) {
    put(model.among);
    y += GAP;
  }
  servers.forEach((_, server) => {
    const lane = lanes[model.laneOfServer(server)];
    lane.rows ||= 1; // it is there though nothing may go to it alone
    put(model.laneOfServer(server));
    const height = Math.max(TEXTS, lane.height);
    y += height - lane.height;
    devices.push({ device: model.firstServer + server, y: lane.top, height });
    y += GAP;
  });
  return { lanes, devices, height: Math.max(0, y - GAP) };
}
