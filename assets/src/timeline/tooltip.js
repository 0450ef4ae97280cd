// A box beside the pointer with what is under it. Keyboard users hear the same from a live region.
import { h } from "../draw/dom.js";

const AWAY_PX = 14;

export function tooltip() {
  const element = h("div", { class: "wb-timeline-tip", "aria-hidden": "true", hidden: true });

  function show(title, details, { clientX, clientY }, frame) {
    const rows = details.flatMap(([label, text]) => [h("dt", {}, label), h("dd", {}, text)]);
    element.replaceChildren(h("strong", {}, title), h("dl", {}, ...rows));
    element.hidden = false;
    const around = frame.getBoundingClientRect();
    const [x, y] = [clientX - around.left, clientY - around.top];
    const turned = x + AWAY_PX + element.offsetWidth > around.width;
    element.style.left = `${Math.max(0, turned ? x - AWAY_PX - element.offsetWidth : x + AWAY_PX)}px`;
    const floor = (frame.closest(".wb-dashboard") ?? frame).getBoundingClientRect().bottom - around.top;
    const raised = y + AWAY_PX + element.offsetHeight > floor; // below the dashboard it would be cut off
    element.style.top = `${raised ? y - AWAY_PX - element.offsetHeight : y + AWAY_PX}px`;
  }

  return { element, show, hide: () => (element.hidden = true) };
}
