// Clicks on their way to the kernel. It says that it has heard one. While a cell keeps it from hearing, a click that begins
// something waits for a few seconds and is then given up, here and, by the time it carries, in the kernel: nobody expects
// it any more. One that holds or ends a run is kept as long as that very run goes on.

const BUSY_MS = 300;
const VALID_S = 5;
const KEPT = { pause: "holds", stop: "ends" };

export class Clicks {
  // `send(message)` sends, `changed` is called when `words` or `waiting` do.
  constructor(send, changed, clock = { now: () => performance.now(), date: () => Date.now() }) {
    this.send = send;
    this.changed = changed;
    this.clock = clock;
    this.view = Math.random().toString(36).slice(2); // other views click, too
    this.count = 0;
    this.kernelClock = null; // the kernel's clock, and ours when that came
    this.waiting = new Map(); // what each click says, by its id
    this.words = ""; // what there is to say about it
    this.taken = null; // what was said when the kernel had heard a click that is kept, and how the run stood
    this.timers = new Set();
  }

  close() {
    this.timers.forEach(clearTimeout);
  }

  // `run`: that goes on, {id, state}; null if none does.
  press(name, values, run = null) {
    const id = `${this.view} ${++this.count}`;
    this.waiting.set(id, name);
    this.words = "";
    this.taken = null;
    if (run && KEPT[name]) return this.keep(id, name, run);
    this.later(BUSY_MS, () => this.waiting.has(id) && this.say(`The kernel is busy with a cell; ${name} waits …`));
    this.later(1000 * VALID_S, () => this.giveUp(id, `the kernel was busy for ${VALID_S} seconds`));
    this.send({ type: "command", name, values, id, valid: VALID_S, ...this.stamp() });
  }

  keep(id, name, run) {
    this.taken = { id, run: run.id, state: run.state };
    this.later(BUSY_MS, () => {
      if (this.waiting.has(id)) this.say(`The kernel is busy with a cell; ${name} is kept until it hears it …`);
    });
    this.send({ type: "command", name, values: {}, id, run: run.id });
  }

  // By two clocks, since one may stand still while a computer sleeps and the other may be set.
  stamp() {
    if (!this.kernelClock) return {};
    const past = Math.max(this.clock.now() - this.kernelClock.now, this.clock.date() - this.kernelClock.date);
    return { sent: this.kernelClock.sent, since: past / 1000 };
  }

  // What came from the kernel.
  heard({ type, sent, id, late, why, run }) {
    if (type === "state") this.compare(run);
    if (sent !== undefined) this.kernelClock = { sent, now: this.clock.now(), date: this.clock.date() };
    if (type !== "heard" || !this.waiting.has(id)) return;
    if (late && why) return this.refuse(id, why);
    if (late) return this.giveUp(id, "it came to the kernel too late");
    const name = this.waiting.get(id);
    this.waiting.delete(id);
    this.say(
      this.taken?.id === id ? `The kernel has heard ${name}: the run ${KEPT[name]} behind the step it is at.` : "",
    );
  }

  // What was said of a click that was kept holds until the run stands otherwise.
  compare(run) {
    if (!this.taken || (run?.id === this.taken.run && run.state === this.taken.state)) return;
    this.waiting.delete(this.taken.id);
    this.taken = null;
    this.say("");
  }

  refuse(id, why) {
    const name = this.waiting.get(id);
    this.waiting.delete(id);
    this.taken = null;
    this.say(`${name} was not done: ${why}.`);
  }

  giveUp(id, why) {
    const name = this.waiting.get(id);
    if (!this.waiting.delete(id)) return;
    this.say(`${name} was not done: ${why}. Press it again when the cell has ended.`);
  }

  say(words) {
    this.words = words;
    this.changed();
  }

  later(wait, act) {
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      act();
    }, wait);
    this.timers.add(timer);
  }
}
