// Elements in one expression: h("button", { class: "wb-button", onclick: go }, "Run").

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Functions become properties (onclick), true and false attributes without a value or none.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function" || name === "value") element[name] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

// Other children, but those that look the same stay: what was marked in them, and the keyboard's place. What their
// buttons do must be the same, too.
export function renew(element, children) {
  const old = [...element.children];
  if (old.length !== children.length) return element.replaceChildren(...children);
  children.forEach((part, k) => part.outerHTML !== old[k].outerHTML && old[k].replaceWith(part));
}
