// Nodes by text: a part of a label, type, layer or value name, or a regular expression for one.

const REGEX = /[\\^$*+?()[\]{}|]/;

export class Search {
  constructor(model) {
    this.model = model;
    this.texts = null; // made at the first search
    this.clear();
  }

  clear() {
    Object.assign(this, { query: "", nodes: [], at: -1, set: new Set() });
  }

  find(query) {
    if (!query.trim()) return this.clear();
    this.texts ??= textsOf(this.model);
    const fits = matcher(query.trim());
    const nodes = [];
    this.texts.forEach((texts, n) => {
      if (texts.some(fits)) nodes.push(n);
    });
    Object.assign(this, { query, nodes, at: -1, set: new Set(nodes) });
  }

  // The next hit, or the one before; null without hits.
  step(by) {
    const { length } = this.nodes;
    if (!length) return null;
    this.at = this.at < 0 ? (by > 0 ? 0 : length - 1) : (this.at + by + length) % length;
    return this.nodes[this.at];
  }

  // "3 of 17".
  text() {
    if (!this.query) return "";
    if (!this.nodes.length) return "nothing found";
    return this.at < 0 ? `${this.nodes.length} found` : `${this.at + 1} of ${this.nodes.length}`;
  }
}

// Text with signs of regular expressions is one, if it is valid.
export function matcher(query) {
  if (REGEX.test(query)) {
    try {
      const regex = new RegExp(query, "i");
      return (text) => regex.test(text);
    } catch {
      /* taken as plain text, a bracket may still be missing */
    }
  }
  const plain = query.toLowerCase();
  return (text) => text.toLowerCase().includes(plain);
}

function textsOf(model) {
  return Array.from({ length: model.count }, (_, n) => {
    const values = [...model.reads.of(n), ...model.writes.of(n)].map((v) => model.valueName(v));
    return [...new Set([model.label(n), model.type(n), model.layer(n), ...values])];
  });
}
