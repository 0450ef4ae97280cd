// The range of values that the runs of a chart are drawn in. A run that diverged, or a spike, must not flatten all else:
// it leaves the frame instead. `workbench/experiments/charts/ranges.py` computes the same for pictures.

const FAR = 3; // times as far from zero as usual: out of the frame
const LEAST = 1; // nothing nearer to zero than this is far: accuracies may rise from anywhere
const REACH = 10; // times as large as usual: a run that stays within it is one of the others, on another level
const STEADY = 100; // times as far from zero as at its beginning: a run has diverged
const FAR_LOG = Math.log(100); // above what is usual, where the scale is logarithmic; for whole runs, too
const WIDER = { linear: 5, log: 2 }; // the whole range is shown unless it is so many times as wide
const FEW = 0.1; // of the longest run's points: too few to tell what is usual

// runs: {mean, low?, high?} of each, columns. Gives {range, whole}: [low, high] each, the same where nothing is far out;
// null where there is no number that has a place.
export function typicalRange(runs, log = false) {
  const placedRuns = runs.map((run) => columnsOf(run, log)).filter(({ values }) => values.length);
  if (!placedRuns.length) return null;
  const all = placedRuns.flatMap((run) => run.all);
  const limit = limitOf(
    placedRuns.map(({ values }) => values),
    log,
  );
  const whole = ends(all);
  const range = ends(all.map((column) => column.filter((value) => size(value, log) <= limit)));
  const isClose = width(whole) <= (log ? WIDER.log : WIDER.linear) * width(range);
  return {
    range: (isClose ? whole : range).map((value) => back(value, log)),
    whole: whole.map((value) => back(value, log)),
  };
}

// The means of a run, and all columns of it, as far as they have a place.
function columnsOf({ mean, low, high }, log) {
  const all = [mean, low, high].filter(Boolean).map((column) => placed(column, log));
  return { values: all[0], all };
}

// What is far from where most runs begin, from the lower quarter of them, and from most of those that have not left
// their beginning far behind: the others may have diverged. A run that stays within reach of these is shown whole, and
// is one of them to the next larger one.
function limitOf(runs, log) {
  const most = Math.max(...runs.map((values) => values.length));
  const long = runs.filter((values) => values.length >= FEW * most);
  const sizes = long.map((values) => usual(values, log));
  const starts = long.map((values) => size(values[0], log));
  let level = Math.max(ranked(sizes, 0.25), ranked(starts, 0.5), steadyLevel(long, log));
  let limit = log ? level + FAR_LOG : Math.max(FAR * level, LEAST);
  const whole = runs.map((values) => ({
    extent: values.reduce((far, value) => Math.max(far, size(value, log)), -Infinity),
    usual: usual(values, log),
  }));
  for (const run of whole.sort((a, b) => a.extent - b.extent)) {
    if (run.extent > (log ? level + FAR_LOG : REACH * level)) break;
    level = Math.max(level, run.usual);
    limit = Math.max(limit, run.extent);
  }
  return limit;
}

// Of one run alone nobody can say whether it has diverged.
function steadyLevel(runs, log) {
  const isSteady = ({ start, top }) => (log ? top <= start + FAR_LOG : top <= STEADY * start);
  const steady = runs.map((values) => ({ start: size(values[0], log), top: top(values, log) })).filter(isSteady);
  return runs.length > 1 && steady.length
    ? ranked(
        steady.map((run) => run.top),
        0.5,
      )
    : -Infinity;
}

// How far from zero a run goes, but for single spikes.
const top = (values, log) => quantile(values.map((value) => size(value, log)).sort(), 0.95);

const ranked = (numbers, part) => numbers.sort((a, b) => a - b)[Math.floor((numbers.length - 1) * part)];

// How far from zero a run begins, or the half of its values that lies nearer to its beginning.
function usual(values, log) {
  const sorted = Float64Array.from(values).sort();
  const [lower, middle, upper] = [0.05, 0.5, 0.95].map((part) => quantile(sorted, part));
  const start = values[0];
  const [low, high] = [
    [lower, middle],
    [middle, upper],
  ].map((half) => ends([[start], half]));
  return Math.max(...(width(low) <= width(high) ? low : high).map((value) => size(value, log)));
}

const size = (value, log) => (log ? value : Math.abs(value));

const placed = (column, log) => {
  const numbers = Float64Array.from(column).filter((value) => Number.isFinite(value) && (!log || value > 0));
  return log ? numbers.map(Math.log) : numbers;
};

function ends(columns) {
  let [low, high] = [Infinity, -Infinity];
  for (const column of columns) {
    for (const value of column) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return [low, high];
}

function quantile(sorted, part) {
  const at = part * (sorted.length - 1);
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - below);
}

const width = ([low, high]) => high - low;
const back = (value, log) => (log ? Math.exp(value) : value);
