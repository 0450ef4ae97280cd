// Pointer, wheel and keys on the drawing, the same for SVG and canvas.

const DRAG = 4; // pixels before a press is a drag
const STEP = 1.25;

// `on` has pan(dx, dy), zoom(factor, x, y), fit(), click(x, y), hover(x, y), leave(), arrow(key), enter(event),
// collapse(), escape().
export function listen(stage, on) {
  let press = null;
  const place = (event) => {
    const { left, top } = stage.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const handlers = {
    pointerdown(event) {
      if (event.button === 0) press = { at: place(event), dragged: false, id: event.pointerId };
    },
    pointermove(event) {
      const [x, y] = place(event);
      if (!press) return on.hover(x, y);
      const [dx, dy] = [x - press.at[0], y - press.at[1]];
      if (!press.dragged && Math.hypot(dx, dy) < DRAG) return;
      if (!press.dragged) stage.setPointerCapture(press.id);
      press = { ...press, at: [x, y], dragged: true };
      stage.classList.add("wb-g-dragging");
      on.pan(dx, dy);
    },
    pointerup(event) {
      const clicked = press && !press.dragged;
      stage.classList.remove("wb-g-dragging");
      press = null;
      if (clicked) on.click(...place(event));
    },
    pointercancel() {
      stage.classList.remove("wb-g-dragging");
      press = null;
    },
    pointerleave: () => on.leave(),
    // Without the focus the wheel scrolls the notebook.
    wheel(event) {
      if (!event.ctrlKey && !event.metaKey && !stage.contains(document.activeElement)) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) on.pan(-event.deltaX, 0);
      else on.zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) / 300), ...place(event));
    },
    keydown(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const act = keyAct(event, on);
      if (!act) return;
      event.preventDefault();
      act();
    },
  };
  for (const [name, handler] of Object.entries(handlers)) stage.addEventListener(name, handler, { passive: false });
}

function keyAct(event, on) {
  const { key } = event;
  if (key.startsWith("Arrow")) return () => on.arrow(key);
  if (key === "+" || key === "=") return () => on.zoom(STEP);
  if (key === "-") return () => on.zoom(1 / STEP);
  if (key === "0") return () => on.fit();
  if (key === "Enter" || key === " ") return () => on.enter(event);
  if (key === "Backspace") return () => on.collapse();
  if (key === "Escape") return () => on.escape();
  return null;
}
