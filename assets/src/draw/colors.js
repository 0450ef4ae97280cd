// Colours that people with any kind of colour vision can tell apart (Okabe and Ito, 2008), and those of the theme.

export const ROLES = {
  forward: "#0072b2",
  backward: "#d55e00",
  optimize: "#009e73",
  server: "#b07d00",
  collective: "#cc79a7",
};
export const SERIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900", "#888888"];

export const deviceColor = (device) => SERIES[device % SERIES.length];

const COLLECTIVES = new Set([
  ...["all_reduce", "fused_all_reduce", "reduce", "broadcast", "fused_broadcast"],
  ...["trainer_broadcast", "c_allreduce_sum", "c_broadcast"],
]);
const SERVER_OPS = new Set([
  ...["send", "recv", "send_barrier", "fetch_barrier", "server_exchange"],
  ...["distributed_lookup_table", "listen_and_serv"],
]);

// "collective", "server" (what parameter servers are sent, and what comes from them) or the kind of the role.
export function opKind(type, role) {
  if (COLLECTIVES.has(type)) return "collective";
  return SERVER_OPS.has(type) ? "server" : roleKind(role);
}

// "forward", "backward" or "optimize", of the role as the kernel writes it.
export function roleKind(role) {
  if (role.includes("Optimize") || role.includes("LRSched")) return "optimize";
  return role.includes("Backward") ? "backward" : "forward";
}

// The theme's colours as they are now, for canvases; style sheets use the variables themselves.
export function theme(element) {
  const style = getComputedStyle(element);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    back: of("--wb-back"),
    text: of("--wb-text"),
    faint: of("--wb-faint"),
    line: of("--wb-line"),
    brand: of("--wb-brand"),
  };
}

// The hot end of heat maps; the cold end is the page's own colour.
export const HEAT = "#e69f00";
