// Smoothing of curves, and where they stop being numbers.

// Exponential moving average, corrected for its start: the first value is the curve's own. NaN stays NaN and is left
// out of the average.
export function smoothed(values, weight) {
  if (!(weight > 0)) return values;
  const averages = new Float64Array(values.length);
  let mean = 0;
  let left = 1; // how much of the average is still its start
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (!Number.isFinite(value)) {
      averages[i] = NaN;
      continue;
    }
    mean = weight * mean + (1 - weight) * value;
    left *= weight;
    averages[i] = mean / (1 - left);
  }
  return averages;
}

// {step, text} of the first value that is no number, null when all are. `steps` are the last ones of buckets of
// `width` steps; `first` is the step of that value, where it is known.
export function broken(steps, values, width = 1, first = null) {
  const i = values.findIndex((value) => !Number.isFinite(value));
  if (i < 0) return null;
  const step = first ?? (width > 1 ? Math.max(steps[i] - width + 1, (steps[i - 1] ?? 0) + 1) : steps[i]);
  const stays = values.subarray(i).every((value) => !Number.isFinite(value));
  const what = Number.isNaN(values[i]) ? "NaN" : "Inf";
  const where = `${stays ? "from" : "at"} ${width > 1 && first == null ? "about " : ""}step ${step.toLocaleString("en")}`;
  return { step, text: `${what} ${where}` };
}
