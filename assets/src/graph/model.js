// A graph message with what the drawing asks of it all the time: lanes, neighbours, who writes what.
import { opKind, roleKind } from "../draw/colors.js";

export const KINDS = ["forward", "backward", "optimize", "server", "collective"];
export const COLLECTIVE = 4; // the kinds before it have lanes on every device

export class Model {
  constructor(message) {
    const { node, tables, edge } = message;
    this.message = message;
    this.count = node.label.length;
    this.devices = message.devices;
    this.process = message.process ?? new Int32Array(message.devices.length); // of every device
    this.types = tables.type;
    this.kind = Uint8Array.from({ length: this.count }, (_, n) =>
      KINDS.indexOf(opKind(tables.type[node.type[n]], tables.role[node.role[n]])),
    );
    const roles = tables.role.map((role) => KINDS.indexOf(roleKind(role)));
    this.role = Uint8Array.from({ length: this.count }, (_, n) => roles[node.role[n]]);
    this.across = lists(this.count, message.across.node, message.across.device);
    this.out = lists(this.count, edge.source, edge.target);
    this.in = lists(this.count, edge.target, edge.source);
    this.rank = ranks(this.count, edge, this.out);
    this.reads = lists(this.count, message.read.node, message.read.value);
    this.writes = lists(this.count, message.write.node, message.write.value);
    // One lane for each device and kind; the last is for what devices do together: collectives and fetches.
    // Behind them one for what goes to several parameter servers at once, and one for each server.
    this.shared = COLLECTIVE * Math.max(1, this.devices.length);
    this.servers = serversOf(message);
    this.firstServer = Math.max(1, this.devices.length); // bands: the devices, then the servers
    this.toward = lists(this.count, message.toward?.node ?? [], message.toward?.server ?? []);
    this.among = this.shared + 1;
    this.lanes = this.among + (this.servers.length ? 1 + this.servers.length : 0);
    this.lane = Int32Array.from({ length: this.count }, (_, n) => this.laneOf(n));
  }

  laneOf(n) {
    const servers = this.toward.of(n);
    if (servers.length) return servers.length > 1 ? this.among : this.laneOfServer(servers[0]);
    if (this.kind[n] === COLLECTIVE || this.across.of(n).length) return this.shared;
    return COLLECTIVE * Math.max(0, this.message.node.device[n]) + this.kind[n];
  }

  laneOfServer(server) {
    return this.among + 1 + server;
  }

  // Whether what is drawn in this lane reaches into several bands.
  isBetween(lane) {
    return lane === this.shared || lane === this.among;
  }

  // The bands in which a node is drawn: those of its devices, or of the servers that it meets, which come behind.
  bandsOf(n) {
    const servers = this.toward.of(n);
    return servers.length ? Array.from(servers, (server) => this.firstServer + server) : this.devicesOf(n);
  }

  bandName(band) {
    return this.devices[band] ?? this.servers[band - this.firstServer]?.name ?? "?";
  }

  serverText(n) {
    return Array.from(this.toward.of(n), (server) => this.servers[server].name).join(", ");
  }

  type(n) {
    return this.types[this.message.node.type[n]];
  }
  label(n) {
    return this.message.node.label[n];
  }
  layer(n) {
    return this.message.tables.layer[this.message.node.layer[n]] ?? "";
  }
  roleText(n) {
    return this.message.tables.role[this.message.node.role[n]];
  }
  bytes(n) {
    return this.message.node.bytes[n];
  }
  valueName(v) {
    return this.message.value.name[v];
  }

  site(n) {
    const at = this.message.node.site[n];
    return at < 0 ? null : this.message.tables.site[at];
  }

  // "fc_0.tmp_0" of "mul fc_0.tmp_0".
  result(n) {
    const label = this.label(n);
    const type = this.type(n);
    return label.startsWith(`${type} `) ? label.slice(type.length + 1) : label === type ? "" : label;
  }

  devicesOf(n) {
    const several = this.across.of(n);
    return several.length ? [...several] : [this.message.node.device[n]];
  }

  placeText(n) {
    const names = this.devicesOf(n).map((device) => this.devices[device] ?? "no device");
    return names.length > 3 ? `${names[0]} to ${names.at(-1)}` : names.join(", ");
  }

  // The node that writes each value, -1 for what comes from outside; made when first asked for.
  get writer() {
    if (!this.writers) {
      this.writers = new Int32Array(this.message.value.name.length).fill(-1);
      const { node, value } = this.message.write;
      for (let k = 0; k < node.length; k++) this.writers[value[k]] = node[k];
    }
    return this.writers;
  }

  get readers() {
    this.readersOf ??= lists(this.message.value.name.length, this.message.read.value, this.message.read.node);
    return this.readersOf;
  }

  // How many nodes there are of each kind; collectives by type.
  counts() {
    const kinds = KINDS.map(() => 0);
    const collectives = new Map();
    for (let n = 0; n < this.count; n++) {
      kinds[this.kind[n]]++;
      if (this.kind[n] === COLLECTIVE) collectives.set(this.type(n), (collectives.get(this.type(n)) ?? 0) + 1);
    }
    return { kinds, collectives };
  }
}

// The parameter servers: {name, pushed, pulled: bytes of a step by the program, NaN where only a step can tell,
// exchanges, toldPushed, toldPulled: what a server has told of steps}.
export function serversOf({ servers }) {
  return Array.from(servers?.name ?? [], (name, k) => ({
    name,
    pushed: servers.pushed[k],
    pulled: servers.pulled[k],
    exchanges: servers.exchanges?.[k] ?? 0,
    toldPushed: servers.told_pushed?.[k] ?? NaN,
    toldPulled: servers.told_pulled?.[k] ?? NaN,
  }));
}

// For each of `count` keys the values that go with it, in the order they came, as views of one array.
export function lists(count, keys, values) {
  const start = new Int32Array(count + 1);
  for (let k = 0; k < keys.length; k++) start[keys[k] + 1]++;
  for (let k = 0; k < count; k++) start[k + 1] += start[k];
  const next = start.slice(0, count);
  const items = new Int32Array(keys.length);
  for (let k = 0; k < keys.length; k++) items[next[keys[k]]++] = values[k];
  return { start, items, of: (key) => items.subarray(start[key], start[key + 1]) };
}

// The place of every node in an order in which sources come before targets: their numbers, if those do.
function ranks(count, { source, target }, out) {
  const rank = Int32Array.from({ length: count }, (_, n) => n);
  if (source.every((a, k) => a < target[k])) return rank;
  const missing = new Int32Array(count);
  for (const n of target) missing[n]++;
  const ready = rank.filter((n) => missing[n] === 0);
  const order = [...ready];
  for (let k = 0; k < order.length; k++) {
    for (const next of out.of(order[k])) if (--missing[next] === 0) order.push(next);
  }
  for (let n = 0; n < count; n++) if (missing[n] > 0) order.push(n); // part of a cycle
  order.forEach((n, k) => {
    rank[n] = k;
  });
  return rank;
}
