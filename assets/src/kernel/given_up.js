// Outputs of dashboards that JupyterLab has given up too early. When a page is loaded again, an output looks for its
// widget during two seconds, then waits until all widgets have come from the kernel. A page that is too busy in between
// sees them come after the last look and before it would begin to wait: the output then says "model not found" for good,
// beside a widget that is there. So whoever has come looks for such outputs, and has them drawn once more.

const GIVEN_UP = "Error displaying widget: model not found";
const OUTPUT = ".jp-OutputArea-child";
const CELL = "[data-windowed-list-index]";
const WIDGET = "application/vnd.jupyter.widget-view+json";
const LOOK_MS = 250;
const LOOKS = 16; // twice as long as outputs look themselves

// `manager`: of JupyterLab's widgets; elsewhere nothing is done. Returns what ends it.
export function drawGivenUp(manager, page = document) {
  const cells = manager?.context?.model?.cells;
  if (!cells || !manager.restored) return () => {};
  let timer = null;
  const look = (left) => {
    for (const output of givenUp(page)) drawAgain(manager, cells, output);
    timer = left > 1 ? setTimeout(look, LOOK_MS, left - 1) : null;
  };
  const begin = () => {
    clearTimeout(timer);
    look(LOOKS);
  };
  manager.restored.connect(begin);
  begin();
  return () => {
    clearTimeout(timer);
    manager.restored.disconnect(begin);
  };
}

// Where outputs of ours were given up: the index of the cell, of the output in it, and what the class of the picture is
// called that stands beside it.
function givenUp(page) {
  const outputs = [];
  for (const words of page.querySelectorAll(".jp-OutputArea-output.jupyter-widgets")) {
    if (words.textContent.trim() !== GIVEN_UP) continue;
    const output = words.closest(OUTPUT);
    const still = output?.nextElementSibling?.querySelector(".wb-still");
    const name = [...(still?.classList ?? [])].find((each) => each.startsWith("wb-still-"));
    const cell = Number(words.closest(CELL)?.dataset.windowedListIndex);
    if (name && cell >= 0) outputs.push({ cell, at: [...output.parentElement.children].indexOf(output), name });
  }
  return outputs;
}

function drawAgain(manager, cells, { cell, at, name }) {
  const outputs = cells.get(cell)?.outputs;
  if (!outputs || at + 1 >= outputs.length) return;
  const output = outputs.get(at).toJSON();
  const beside = [outputs.get(at + 1).toJSON().data?.["text/html"] ?? ""].flat().join("");
  if (beside.includes(name) && manager.has_model(output.data?.[WIDGET]?.model_id)) outputs.set(at, output);
}
