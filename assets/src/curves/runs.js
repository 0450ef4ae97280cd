// Which runs and series there are, how each is drawn, and which the user wants to see.
import { SERIES } from "../draw/colors.js";

const DASHES = [null, "7 4", "2 4", "10 4 2 4"];
const SHOWN = 6; // runs that are drawn unless the user wants others: the newest

// Keeps a run's colour and dashes for as long as the page lives, and what the user has ticked.
export class Choice {
  constructor() {
    this.styles = new Map();
    this.runs = new Map(); // id -> ticked by hand
    this.series = new Map();
  }

  style(run) {
    if (!this.styles.has(run)) {
      const i = this.styles.size;
      // The second time around the colours come with other dashes.
      const dash = DASHES[(i + Math.floor(i / SERIES.length)) % DASHES.length];
      this.styles.set(run, { color: SERIES[i % SERIES.length], dash });
    }
    return this.styles.get(run);
  }

  // `age`: 0 for the newest run.
  shows(run, age) {
    return this.runs.get(run) ?? age < SHOWN;
  }

  showsSeries(name, i) {
    return this.series.get(name) ?? i < 4;
  }
}

// All runs of which there are curves, the newest last: [{id, label, state, curves, color, dash, shown}].
export function listed(store, choice) {
  const said = store.state?.runs ?? [];
  const known = said.filter(({ id }) => store.curves.has(id)).map(({ id, label, state }) => ({ id, label, state }));
  const ids = new Set(said.map(({ id }) => id));
  for (const [id, { label }] of store.curves) if (!ids.has(id)) known.push({ id, label, state: null });
  return known.map((run, i) => ({
    ...run,
    ...choice.style(run.id),
    curves: store.curves.get(run.id),
    shown: choice.shows(run.id, known.length - 1 - i),
  }));
}

// Names of all series, in the order of their appearance.
export function seriesNames(runs) {
  return [...new Set(runs.flatMap(({ curves }) => Object.keys(curves.series ?? {})))];
}
