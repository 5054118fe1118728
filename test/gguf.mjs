// GGUF files, taken apart and put together again: tests make models of the built-in ones.

const alignment = 32;

/** Reads numbers and texts one after the other. */
class Reader {
  at = 0;
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  u32() {
    return this.view.getUint32((this.at += 4) - 4, true);
  }
  u64() {
    return Number(this.view.getBigUint64((this.at += 8) - 8, true));
  }
  text() {
    const length = this.u64();
    return this.bytes.subarray(this.at, (this.at += length)).toString();
  }
  /** A value of metadata. Numbers are passed over: nothing here needs one. */
  value(kind) {
    const sizes = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
    if (kind === 8) return this.text();
    if (kind === 9) {
      const [of, length] = [this.u32(), this.u64()];
      return Array.from({ length }, () => this.value(of));
    }
    this.at += sizes[kind];
    return undefined;
  }
}

export const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
export const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
export const text = (s) => Buffer.concat([u64(Buffer.byteLength(s)), Buffer.from(s)]);
const padded = (n) => Math.ceil(n / alignment) * alignment;

/** The parts of a GGUF file. */
export function parse(bytes) {
  const r = new Reader(bytes);
  r.at = 8;
  const [tensorCount, metadataCount] = [r.u64(), r.u64()];
  const metadata = [];
  for (let n = 0; n < metadataCount; n++) {
    const begin = r.at;
    const name = r.text();
    const value = r.value(r.u32());
    metadata.push({ name, value, raw: bytes.subarray(begin, r.at) });
  }
  const tensors = Array.from({ length: tensorCount }, () => {
    const name = r.text();
    const shape = Array.from({ length: r.u32() }, () => r.u64());
    return { name, shape, kind: r.u32(), offset: r.u64() };
  });
  const data = padded(r.at);
  for (const [i, t] of tensors.entries()) t.data = bytes.subarray(data + t.offset, i + 1 < tensors.length ? data + tensors[i + 1].offset : undefined);
  return { metadata, tensors };
}

/** A file of such parts, with the head of another one. */
export function assemble(bytes, { metadata, tensors }) {
  let offset = 0;
  const heads = tensors.map((t) => {
    const head = Buffer.concat([text(t.name), u32(t.shape.length), ...t.shape.map(u64), u32(t.kind), u64(offset)]);
    offset += padded(t.data.length);
    return head;
  });
  const head = Buffer.concat([bytes.subarray(0, 8), u64(tensors.length), u64(metadata.length), ...metadata.map((m) => m.raw), ...heads]);
  const fill = (b) => [b, Buffer.alloc(padded(b.length) - b.length)];
  return Buffer.concat([head, ...tensors.map((t) => t.data)].flatMap(fill));
}
