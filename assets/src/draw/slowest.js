// The slowest op, as the kernel found it over all steps that were looked at: every panel that names one says the same.
import { count, seconds } from "./numbers.js";

// "slowest: mul fc_0.tmp_0 on CPUPlace(1), 412 µs (median of 12 steps)", "" where there is none.
export function slowestWords(sample, devices = []) {
  if (!sample?.slowest) return "";
  const { device, label, us, steps } = sample.slowest;
  const over = steps === 1 ? "of one step" : `median of ${count(steps)} steps`;
  return `slowest: ${label} ${where(device, devices)}, ${seconds(us / 1e6)} (${over})`;
}

// A device is a position, -1 for what acts on all of them, or a text.
function where(device, devices) {
  if (typeof device === "string") return `on ${device}`;
  if (device < 0 && devices.length > 1) return "across devices";
  return `on ${devices[Math.max(device, 0)] ?? `device ${device}`}`;
}
