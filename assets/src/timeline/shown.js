// Which step is shown: the newest, or the one that was chosen. The store holds whatever sample came last, be it news or
// the answer to a question of this or another panel.
export class Shown {
  constructor(send) {
    this.send = send;
    this.chosen = null; // a step; null follows the newest
    this.sample = null;
    this.newest = null;
    this.latest = null; // what came last, and what the other panels show
  }

  get waiting() {
    return this.chosen !== null && this.sample?.step !== this.chosen;
  }

  // After a sample or the list of steps came; tells whether another sample is shown now.
  take(sample, steps) {
    const before = this.sample;
    this.latest = sample;
    if (this.chosen !== null && steps.length && !steps.includes(this.chosen)) this.chosen = null; // of an earlier run
    if (sample && isNews(sample, steps)) this.newest = sample;
    if (this.chosen === null) this.sample = this.newest ?? sample;
    else if (sample?.step === this.chosen) this.sample = sample;
    return this.sample !== before;
  }

  forget() {
    this.chosen = this.newest = null;
  }

  choose(step) {
    if (step === this.chosen) return;
    this.chosen = step;
    if (this.newest?.step === step) this.sample = this.newest;
    this.bring(step);
  }

  follow(steps) {
    this.chosen = null;
    this.sample = this.newest ?? this.sample;
    const last = steps.at?.(-1);
    if (last !== undefined) this.bring(last);
  }

  // All panels show what came last: a step that is held here is asked for, too, when something else came after it.
  bring(step) {
    if (this.latest?.step !== step) this.send({ type: "sample", step });
  }
}

// Not an answer about an older step: news is the last of the list, or not in it yet.
function isNews({ step }, steps) {
  return !steps.includes(step) || steps.at(-1) === step;
}
