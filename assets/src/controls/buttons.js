// The buttons of a run. They stay focusable when they make no sense, so that the keyboard does not lose its place.
import { h } from "../draw/dom.js";
import { icon } from "../draw/icons.js";

export const BUTTONS = [
  {
    names: ["run"],
    labels: ["Run"],
    icons: ["running"],
    titles: [
      "wb.dashboard().start(): a run with the settings below, from the beginning, with values of its own (run.scope)",
    ],
  },
  {
    names: ["pause", "resume"],
    labels: ["Pause", "Resume"],
    icons: ["paused", "running"],
    titles: ["run.pause(): hold at the next step boundary", "run.resume(): go on"],
  },
  { names: ["step"], labels: ["Step"], icons: ["step"], titles: ["run.advance(): one step more, then hold"] },
  { names: ["stop"], labels: ["Stop"], icons: ["stopped"], titles: ["run.stop(): end at the next step boundary"] },
  {
    names: ["drop"],
    labels: ["Drop scopes"],
    icons: ["drop"],
    titles: ["wb.dashboard().drop_scopes(): give the memory of temporaries back now"],
  },
  {
    names: ["save"],
    labels: ["Save checkpoint"],
    icons: ["save"],
    titles: ["run.save(path): at the next step boundary"],
  },
];

// `act(name)` returns whether the command was sent.
export function button({ names, labels, icons, titles }, act) {
  const element = h("button", { type: "button", onclick: click });
  let shown = -1;
  let open = false;

  // Two clicks in a row are one: the kernel has not answered the first.
  function click() {
    if (!open || element.hasAttribute("aria-busy") || !act(names[shown])) return;
    element.setAttribute("aria-busy", "true");
  }

  // Of two commands on one button the one that is allowed; the first when none is.
  function update(allowed) {
    const which = Math.max(
      0,
      names.findIndex((name) => allowed.includes(name)),
    );
    open = allowed.includes(names[which]);
    element.removeAttribute("aria-busy");
    element.setAttribute("aria-disabled", String(!open));
    if (which === shown) return;
    shown = which;
    element.title = titles[which];
    element.replaceChildren(icon(icons[which]), labels[which]);
  }
  update([]);
  return { element, update };
}
