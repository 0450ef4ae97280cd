// Messages of the kernel: JSON in which {"$": i, "dtype": …} stands for the i-th buffer.
// A user may call a feed "$", too: then what stands there is no number beside a dtype.

const KINDS = { int32: Int32Array, float32: Float32Array, float64: Float64Array, uint8: Uint8Array };

export function decode(content, buffers = []) {
  if (Array.isArray(content)) return content.map((part) => decode(part, buffers));
  if (content === null || typeof content !== "object") return content;
  if (typeof content.$ === "number" && typeof content.dtype === "string")
    return typed(buffers[content.$], content.dtype);
  return Object.fromEntries(Object.entries(content).map(([name, part]) => [name, decode(part, buffers)]));
}

// A copy: what arrives need not lie where the type wants it.
function typed(buffer, dtype) {
  const view = ArrayBuffer.isView(buffer) ? buffer : new Uint8Array(buffer);
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();
  return new KINDS[dtype](bytes.buffer);
}
