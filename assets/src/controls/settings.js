// The settings of the next run: what each is called and which inputs it takes.

const whole = (least) => (text) => {
  if (!/^[+-]?\d+$/.test(text)) return { problem: `a whole number from ${least}` };
  const value = Number(text);
  return value >= least && Number.isSafeInteger(value) ? { value } : { problem: `a whole number from ${least}` };
};

const positive = (text) => {
  const value = text === "" ? NaN : Number(text);
  return Number.isFinite(value) && value > 0 ? { value } : { problem: "a number above 0, like 0.01 or 1e-3" };
};

// An empty field leaves it to the program, the data or the executor.
const orNothing = (parse) => (text) => (text === "" ? { value: null } : parse(text));

const word = (text) => ({ value: text === "" ? null : text });

export const SETTINGS = [
  { name: "program", label: "program", choices: true, parse: word, title: "the Program that is trained" },
  { name: "data", label: "feed source", choices: true, parse: word, title: "where the batches come from" },
  {
    name: "valid",
    label: "validation data",
    choices: true,
    optional: true,
    parse: word,
    title: "what the loss is evaluated on besides, after every pass over the feed source: curves named val_…",
  },
  {
    name: "devices",
    label: "devices",
    parse: whole(1),
    width: 5,
    title: "copies of the program, each on a part of the batch",
  },
  {
    name: "reduce_strategy",
    label: "reduce strategy",
    choices: true,
    parse: word,
    title:
      "AllReduce: every device updates all parameters. Reduce: each parameter is updated on one device and sent to the others.",
  },
  {
    name: "num_threads",
    label: "threads",
    parse: orNothing(whole(0)),
    width: 5,
    empty: "auto",
    title: "ExecutionStrategy.num_threads: threads that run operators, 0 leaves it to the executor",
  },
  {
    name: "num_iteration_per_drop_scope",
    label: "drop scopes every",
    unit: "steps",
    parse: orNothing(whole(0)),
    width: 6,
    empty: "100",
    title:
      "ExecutionStrategy.num_iteration_per_drop_scope: steps after which the memory of temporaries is given back, 0 for never",
  },
  {
    name: "batch_size",
    label: "batch size",
    parse: orNothing(whole(1)),
    width: 8,
    empty: "as given",
    title: "rows fed per step, over all devices",
  },
  {
    name: "learning_rate",
    label: "learning rate",
    parse: orNothing(positive),
    width: 8,
    empty: "as given",
    title: "of the optimizer",
  },
  {
    name: "steps",
    label: "steps",
    parse: orNothing(whole(1)),
    width: 8,
    empty: "–",
    title:
      "steps of the run; with epochs too, what comes first ends it; with neither, as many as last some 20 s by the speed of the run before",
  },
  {
    name: "epochs",
    label: "epochs",
    parse: orNothing(whole(1)),
    width: 6,
    empty: "–",
    title: "passes over the feed source; with steps too, what comes first ends the run",
  },
  {
    name: "checkpoints",
    label: "keep checkpoints",
    choices: true,
    optional: true,
    parse: word,
    title:
      "files in the folder checkpoints, written while the run goes on: the last, and the best by the validation data or the loss",
  },
  {
    name: "stop_on_nan",
    label: "stop at the first NaN",
    toggle: true,
    title:
      "train(stop_on_nan=True): end the run at the first step with a NaN or an Inf in its loss or gradients, and do not apply that step",
  },
];

// When a run ends, where two fields have to be read together; `chosen` are the steps that the kernel has without any.
export function lengthOf(steps, epochs, chosen) {
  if (steps === null && epochs === null) return chosen ? `with both blank: ${chosen.toLocaleString("en")} steps` : "";
  return steps && epochs ? "ends with what comes first, steps or epochs" : "";
}

export const written = (value) => (value == null ? "" : String(value));
