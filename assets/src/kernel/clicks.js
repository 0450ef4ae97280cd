// Clicks on their way to the kernel. It says that it has heard one; while a cell keeps it from hearing, a click waits for
// a few seconds and is then given up, here and, by the time it carries, in the kernel.

const BUSY_MS = 300;
const VALID_S = 5;

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
    this.timers = new Set();
  }

  close() {
    this.timers.forEach(clearTimeout);
  }

  press(name, values) {
    const id = `${this.view} ${++this.count}`;
    this.waiting.set(id, name);
    this.words = "";
    this.later(BUSY_MS, () => this.waiting.has(id) && this.say(`The kernel is busy with a cell; ${name} waits …`));
    this.later(1000 * VALID_S, () => this.giveUp(id, `the kernel was busy for ${VALID_S} seconds`));
    this.send({ type: "command", name, values, id, valid: VALID_S, ...this.stamp() });
  }

  // By two clocks, since one may stand still while a computer sleeps and the other may be set.
  stamp() {
    if (!this.kernelClock) return {};
    const past = Math.max(this.clock.now() - this.kernelClock.now, this.clock.date() - this.kernelClock.date);
    return { sent: this.kernelClock.sent, since: past / 1000 };
  }

  // What came from the kernel.
  heard({ type, sent, id, late }) {
    if (sent !== undefined) this.kernelClock = { sent, now: this.clock.now(), date: this.clock.date() };
    if (type !== "heard" || !this.waiting.has(id)) return;
    if (late) return this.giveUp(id, "it came to the kernel too late");
    this.waiting.delete(id);
    this.say("");
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
