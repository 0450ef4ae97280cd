// Whether the kernel is there. JupyterLab says so; elsewhere it shows by the signs of life that a kernel gives while
// something goes on, each of which says when the next one follows.

const GRACE_MS = 8000;
const LOOK_MS = 1000;

const ENDED = {
  restarting: "The kernel was restarted",
  autorestarting: "The kernel died and was started again",
  terminating: "The kernel was shut down",
  dead: "The kernel died",
};
export const SILENT = "The kernel gives no sign of life: it has died, was restarted, or cannot be reached";

export const GOING_ON = ["running", "paused"];

// What holds of a message "state": what goes on in a kernel that is lost is not known, and cannot be changed.
export function knownOf(state, lost) {
  if (!state || !lost) return state;
  const still = (run) => run && (GOING_ON.includes(run.state) ? { ...run, state: "lost" } : run);
  return {
    ...state,
    run: still(state.run),
    runs: state.runs.map(still),
    controls: { ...state.controls, allowed: [], busy: null },
  };
}

export class Presence {
  // `changed` is called when `lost` does.
  constructor(model, changed, now = () => performance.now()) {
    this.lost = null; // why there is no kernel, as text; null while there is one
    this.model = model;
    this.changed = changed;
    this.now = now;
    this.ended = false; // for good: what comes later is not about what is shown
    this.due = null; // when the next sign of life is expected, null for never
    this.every = null;
    this.kernel = model.widget_manager?.kernel ?? null;
    this.told = (_, status) => ENDED[status] && this.end(ENDED[status]); // JupyterLab says "restarting" of both kinds first
    this.gone = () => this.lost === ENDED.dead || this.end(ENDED.terminating); // of a shutdown JupyterLab says no status
    this.unplugged = () => this.lose(SILENT);
    this.kernel?.statusChanged?.connect(this.told);
    this.kernel?.disposed?.connect(this.gone);
    model.on("comm_live_update", this.unplugged);
    this.timer = setInterval(() => this.look(), LOOK_MS);
  }

  close() {
    clearInterval(this.timer);
    this.kernel?.statusChanged?.disconnect(this.told);
    this.kernel?.disposed?.disconnect(this.gone);
    this.model.off("comm_live_update", this.unplugged);
  }

  // Any message is a sign of life; that of type "beat" says what to expect.
  heard({ type, next }) {
    if (type === "beat") this.every = next === null ? null : 1000 * next;
    this.due = this.every === null ? null : this.now() + this.every;
    if (this.lost && !this.ended) this.lose(null);
  }

  look() {
    if (this.due !== null && this.now() > this.due + GRACE_MS) this.lose(SILENT);
  }

  end(why) {
    this.ended = false;
    this.lose(why);
    this.ended = true;
  }

  lose(why) {
    if (this.ended || why === this.lost) return;
    this.lost = why;
    this.changed();
  }
}
