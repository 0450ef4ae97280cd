// What a sample says of the nodes: how long each took, which ran when.

// µs of every node, NaN where nothing is known. Of a span that stands for several nodes each gets its share.
export function nodeTimes(model, sample) {
  if (!sample?.spans || sample.graph !== model.message.id) return null;
  const times = new Float64Array(model.count).fill(NaN);
  const add = (node, share) => {
    if (node >= 0 && node < model.count) times[node] = (Number.isNaN(times[node]) ? 0 : times[node]) + share;
  };
  const { node, start, end } = sample.spans;
  const shared = membersOf(sample);
  for (let k = 0; k < node.length; k++) {
    const members = shared.get(k) ?? [node[k]];
    for (const each of members) add(each, (end[k] - start[k]) / members.length);
  }
  return times;
}

function membersOf({ members }) {
  const shared = new Map();
  for (let k = 0; k < (members?.span.length ?? 0); k++) {
    if (!shared.has(members.span[k])) shared.set(members.span[k], []);
    shared.get(members.span[k]).push(members.node[k]);
  }
  return shared;
}

// The nodes that ran at some moments of the step: a film of it, to be shown slowly.
export class Replay {
  constructor(model, sample) {
    const { node, start, end } = sample.spans;
    const shared = membersOf(sample);
    this.spans = Array.from(node, (n, k) => ({
      nodes: shared.get(k) ?? (n < 0 ? [] : [n]),
      start: start[k],
      end: end[k],
    }))
      .filter(({ nodes }) => nodes.length && nodes.every((n) => n < model.count))
      .sort((a, b) => a.start - b.start);
    this.first = this.spans[0]?.start ?? 0;
    this.length = this.spans.reduce((most, span) => Math.max(most, span.end), this.first) - this.first;
  }

  // At `part` (0 … 1) of the step; ops too short for the film are held for a moment of it.
  running(part) {
    const now = this.first + part * this.length;
    const least = this.length / 40;
    const nodes = [];
    for (const span of this.spans) {
      if (span.start > now) break;
      if (Math.max(span.end, span.start + least) > now) nodes.push(...span.nodes);
    }
    return nodes;
  }
}
