// What is folded into one box: the groups of the graph message, which lie in each other.

const NONE = { node: [], parent: [], title: [], details: [], times: [], open: [] };

// A group: {index, parent, lane, title, details, nodes: numbers in the order of the drawing, whole}.
export class Folds {
  constructor(model) {
    const fold = model.message.fold ?? NONE;
    this.model = model;
    this.parent = fold.node.length ? fold.node : new Int32Array(model.count).fill(-1); // the innermost group of every node
    this.order = ordered(model);
    this.groups = Array.from(fold.title, (title, index) => ({
      index,
      parent: fold.parent[index],
      title: fold.times[index] > 1 ? `${title} × ${fold.times[index]}` : title,
      details: fold.details[index],
      nodes: [],
    }));
    this.open = new Set(this.groups.filter(({ index }) => fold.open[index]).map(({ index }) => index));
    this.fill();
  }

  // The members of the groups; a group is `whole` where nothing else of its lane lies between them.
  fill() {
    const { groups, model } = this;
    const place = new Int32Array(model.lanes);
    for (const n of this.order) {
      const at = place[model.lane[n]]++;
      for (let k = this.parent[n]; k >= 0; k = groups[k].parent) {
        if (!groups[k].nodes.length) groups[k].first = at;
        groups[k].last = at;
        groups[k].nodes.push(n);
      }
    }
    for (const group of groups) {
      group.lane = model.lane[group.nodes[0]];
      group.whole = group.last - group.first + 1 === group.nodes.length;
    }
  }

  // The groups that are open when a graph is first shown.
  begin() {
    return new Set(this.open);
  }

  all() {
    return new Set(this.groups.keys());
  }

  // The groups that hide a node, outermost first.
  above(node) {
    const groups = [];
    for (let k = this.parent[node]; k >= 0; k = this.groups[k].parent) groups.unshift(k);
    return groups;
  }

  // Graphs with the same text here have the same groups in the same order.
  shape() {
    const groups = this.groups.map(({ lane, parent, nodes }) => [lane, parent, nodes[0], nodes.length].join(":"));
    return [this.model.count, this.model.message.edge.source.length, this.model.lanes, ...groups].join(" ");
  }

  // What is to be drawn: items {node or -1, group or null, lane, rank}, the item of every node, the open groups.
  visible(open) {
    const { model, groups } = this;
    const shown = this.closed(open);
    const items = [];
    const itemOf = new Int32Array(model.count);
    const itemOfGroup = new Int32Array(groups.length).fill(-1);
    for (const n of this.order) {
      const box = this.parent[n] < 0 ? -1 : shown[this.parent[n]];
      if (box < 0 || itemOfGroup[box] < 0) {
        const at = items.push(this.item(n, box)) - 1;
        if (box >= 0) itemOfGroup[box] = at;
        itemOf[n] = at;
      } else itemOf[n] = itemOfGroup[box];
    }
    return { items, itemOf, opened: groups.filter(({ index }) => shown[index] < 0) };
  }

  item(n, box) {
    const group = box < 0 ? null : this.groups[box];
    const common = { group, lane: this.model.lane[n], rank: this.model.rank[n] };
    return group ? { node: -1, nodes: group.nodes, ...common } : { node: n, nodes: [n], ...common };
  }

  // For every group the outermost closed one around it, or itself; -1 where all of them are open.
  closed(open) {
    const shown = new Int32Array(this.groups.length);
    for (const { index, parent } of this.groups) {
      const around = parent < 0 ? -1 : shown[parent];
      shown[index] = around >= 0 ? around : open.has(index) ? -1 : index;
    }
    return shown;
  }
}

// The nodes lane by lane, in each so that sources come before targets.
function ordered({ count, lane, rank }) {
  return Int32Array.from({ length: count }, (_, n) => n).sort((a, b) => lane[a] - lane[b] || rank[a] - rank[b]);
}
