// Numbers for people.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(size, digits = 1) {
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) [size, unit] = [size / 1024, unit + 1];
  return unit ? `${size.toFixed(digits)} ${UNITS[unit]}` : `${Math.round(size)} B`;
}

// Four significant digits, without exponents where they can be done without.
export function number(value, digits = 4) {
  if (value == null) return "–";
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return count(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6)
    ? value.toExponential(digits - 2)
    : String(Number(value.toPrecision(digits)));
}

// The texts of different values, each with as many digits as tell them all apart; `format` takes a value, and digits.
export function apart(values, format) {
  const areApart = (texts) => new Set(texts).size === new Set(values).size;
  let texts = values.map((value) => format(value));
  for (let digits = 2; digits <= 16 && !areApart(texts); digits++) texts = values.map((value) => format(value, digits));
  return texts;
}

export const count = (value) => Math.round(value).toLocaleString("en");

export function seconds(value) {
  if (value == null) return "–";
  if (value > 0 && value < 5e-8) return `${(value * 1e9).toFixed(0)} ns`;
  if (value >= 1e-4 && value < 9.995e-4) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1e-3) return `${(value * 1e6).toFixed(1)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(2)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const shape = (dims) => `[${dims.map((n) => (n < 0 ? "?" : n)).join(", ")}]`;

// About `wanted` round numbers between two.
export function ticks(low, high, wanted = 5) {
  const rough = (high - low) / wanted;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const multiples = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; n++) multiples.push(n * step);
  return multiples;
}

// The same for sizes: round in the unit they are shown in.
export function byteTicks(low, high, wanted = 5) {
  if (high <= 1) return [0]; // there are no parts of a byte
  const unit = 1024 ** Math.max(0, Math.min(UNITS.length - 1, Math.floor(Math.log2(high) / 10)));
  return ticks(low / unit, high / unit, wanted).map((value) => value * unit);
}
