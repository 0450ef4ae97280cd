// Letters that can be read on a colour: contrast as the WCAG define it.

export const BLACK = "#000000";
export const WHITE = "#ffffff";

// [red, green, blue] of "#rgb", "#rrggbb" or "rgb(…)"; the browser knows what other words mean.
export function rgb(color) {
  const hex = /^#([\da-f]{3}|[\da-f]{6})$/i.exec(color)?.[1];
  if (hex?.length === 3) return [...hex].map((digit) => parseInt(digit + digit, 16));
  if (hex) return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const numbers = /^rgba?\(([^)]*)\)$/.exec(color)?.[1].match(/[\d.]+/g);
  if (numbers?.length >= 3) return numbers.slice(0, 3).map(Number);
  const context = globalThis.document?.createElement("canvas").getContext("2d");
  if (!context) return [255, 255, 255];
  context.fillStyle = WHITE;
  context.fillStyle = color;
  return color === context.fillStyle ? [255, 255, 255] : rgb(context.fillStyle);
}

// As color-mix(in srgb, …) does.
export const mixed = (a, b, share) => rgb(a).map((value, i) => share * value + (1 - share) * rgb(b)[i]);

export function luminance(parts) {
  const [red, green, blue] = parts.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

// Black or white, whichever is easier to read: never less than 4.5:1.
export const inkOn = (parts) => (contrast(parts, rgb(BLACK)) >= contrast(parts, rgb(WHITE)) ? BLACK : WHITE);
