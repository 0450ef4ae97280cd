// What one view knows: the newest message of every kind, the selected node, and whether the kernel is there.
import { Clicks } from "./kernel/clicks.js";
import { GOING_ON, Presence, knownOf } from "./kernel/presence.js";
import { decode } from "./messages.js";

const ANSWER_MS = 30_000;
const HELLO_MS = 1000; // until the first hello without an answer is said again; then twice as long each time
const HELLO_MOST_MS = 16_000;
const ENDED = ["stopped", "done", "failed"];

export class Store {
  constructor(model) {
    this.model = model;
    this.told = null; // the newest message "state"
    this.state = null; // what holds of it
    this.graph = null;
    this.sample = null;
    this.sampledRun = null; // whose step that is
    this.fed = null;
    this.chosenFed = null; // what a step was fed that was asked for; shown until the newest is
    this.samples = null;
    this.scopes = null;
    this.curves = new Map(); // by run
    this.selected = null; // a node of this.graph
    this.listeners = new Set();
    this.waiting = new Map(); // answers asked for, by request
    this.requests = 0;
    this.presence = new Presence(model, () => this.judge());
    this.clicks = new Clicks(
      (message) => this.send(message),
      () => this.tell("clicks"),
    );
    this.name = Math.random().toString(36).slice(2); // other views ask, too
    this.takes = (content, buffers) => this.take(decode(content, buffers));
    model.on("msg:custom", this.takes);
    this.greeting = null;
  }

  close() {
    clearTimeout(this.greeting);
    this.model.off("msg:custom", this.takes);
    this.presence.close();
    this.clicks.close();
    this.listeners.clear();
  }

  // Whose the panels are, for saved pictures: "trainer, run 3".
  get subject() {
    const { subject, run } = this.state ?? {};
    return [...new Set([subject?.name, run?.name])].filter(Boolean).join(", ");
  }

  send(message, buffers = []) {
    this.model.send(message, undefined, buffers);
  }

  // Ask for everything, and again until it has come: while a kernel or a page is busy starting, a message can be lost.
  greet(wait = HELLO_MS) {
    const hasAll = this.told && this.graph && this.scopes;
    if (hasAll || this.presence.ended) return;
    if (!this.presence.lost) this.send({ type: "hello" });
    this.greeting = setTimeout(() => this.greet(Math.min(2 * wait, HELLO_MOST_MS)), wait);
  }

  command(name, values = {}) {
    const run = this.state?.run ?? null;
    this.clicks.press(name, values, run && GOING_ON.includes(run.state) ? run : null);
  }

  // The answer to a question, a Promise of the message.
  ask(message) {
    const request = `${this.name} ${++this.requests}`;
    if (this.presence.lost) return Promise.reject(new Error(`${this.presence.lost}.`));
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.waiting.delete(request);
        reject(new Error("the kernel did not answer; is another cell running?"));
      }, ANSWER_MS);
      this.waiting.set(request, (answer) => {
        clearTimeout(late);
        resolve(answer);
      });
      this.send({ ...message, request });
    });
  }

  // Called with the kind of message that came, or "selected". Returns what ends it.
  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  // What is shown of feeds, unless it is the sample's.
  get shownFed() {
    return this.chosenFed ?? this.newestFed;
  }

  // What the newest step was fed, if it is not among those that were looked at. Null where the sample tells it, and while
  // an earlier step is shown, which was chosen.
  get newestFed() {
    const { sample, fed, samples } = this;
    if (!fed || !sample) return fed ?? null;
    const follows = !samples?.step?.length || samples.step.at(-1) <= sample.step;
    return follows && fed.graph === sample.graph && fed.step > sample.step ? fed : null;
  }

  // What a step was fed, as long as the same run is shown; null: the newest again.
  async showFedIn(step) {
    const run = this.state?.run?.id;
    const answer = step == null ? null : await this.ask({ type: "fed", step }).catch(() => null);
    if (this.state?.run?.id !== run) return;
    this.chosenFed = answer?.feeds ? { ...answer, run } : null;
    this.tell("fed");
  }

  select(node) {
    if (node === this.selected) return;
    this.selected = node;
    this.tell("selected");
  }

  take(message) {
    const { type } = message;
    this.presence.heard(message);
    this.clicks.heard(message);
    if (type === "curves") this.curves.set(message.run, message);
    else if (this.waiting.has(message.request)) {
      this.waiting.get(message.request)(message);
      this.waiting.delete(message.request);
      return;
    } else if (type === "state") {
      this.told = message;
      this.state = knownOf(message, this.presence.lost);
      this.forget(message.runs.map((run) => run.id));
      if (this.chosenFed && this.chosenFed.run !== message.run?.id) this.showFedIn(null);
    } else if (type in this) {
      if (type === "graph" && !haveSameNodes(this.graph, message)) this.selected = null;
      this[type] = message;
      if (type === "sample") this.sampledRun = this.state?.run?.id;
    }
    this.tell(type);
    if (type === "state") this.forgetSteps();
  }

  // Steps of an earlier run say nothing of one that has ended before any of its own was looked at.
  forgetSteps() {
    const run = this.state.run;
    if (!this.sample || !ENDED.includes(run?.state) || run.id === this.sampledRun) return;
    if (this.fed?.graph === this.sample.graph) this.fed = null;
    this.sample = this.samples = null;
    this.tell("sample");
    this.tell("samples");
  }

  // The kernel is lost, or there again.
  judge() {
    this.state = knownOf(this.told, this.presence.lost);
    this.tell("state");
    this.tell("presence");
  }

  forget(runs) {
    for (const run of this.curves.keys()) if (!runs.includes(run)) this.curves.delete(run);
  }

  tell(kind) {
    for (const listener of [...this.listeners]) listener(kind);
  }
}

// Whether a number means the same node in both: a run that begins sends its graph, whatever was shown before.
function haveSameNodes(before, after) {
  if (!before) return false;
  const names = ({ node, devices }) => [...node.label, ...node.device, ...devices];
  const [old, now] = [names(before), names(after)];
  return old.length === now.length && old.every((name, at) => name === now[at]);
}
