// A model that thinks before it answers, for the real engine: the file of a built-in model with other weights. Its layers add
// nothing, and its last matrix makes each token call the next one of a text that was chosen here. What it says is known, and
// every token of it goes the way of all tokens.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const source = fileURLToPath(new URL('../../internal/builtin/polly.gguf', import.meta.url));
const template = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n<think>\\n' }}";

/** The tokens that become the marks of thoughts, as models that think have them. */
const marks = { '<|fim_prefix|>': '<think>', '<|fim_suffix|>': '</think>' };

const q8 = { kind: 8, values: 32, bytes: 34 };
const oneHalfFloat = 0x3c00;
const tenthHalfFloat = 0x2e66;
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

const u32 = (n) => Buffer.from(Uint32Array.of(n).buffer);
const u64 = (n) => Buffer.from(BigUint64Array.of(BigInt(n)).buffer);
const text = (s) => Buffer.concat([u64(Buffer.byteLength(s)), Buffer.from(s)]);
const padded = (n) => Math.ceil(n / alignment) * alignment;

function parse(bytes) {
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

function assemble(bytes, { metadata, tensors }) {
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

/** Gives the marks of thoughts to a vocabulary, in both forms in which the file has it, and to the template. */
function rename(metadata) {
  const texts = (name, value) => Buffer.concat([text(name), u32(9), u32(8), u64(value.length), ...value.map(text)]);
  return metadata
    .filter((m) => !/fim_(pre|suf|mid)_token_id$/.test(m.name))
    .map((m) => {
      if (m.name === 'tokenizer.chat_template') return textOf(m.name, template);
      if (m.name === 'tokenizer.huggingface.json') return textOf(m.name, Object.entries(marks).reduce((all, [old, mark]) => all.replaceAll(old, mark), m.value));
      if (m.name !== 'tokenizer.ggml.tokens') return m;
      const value = m.value.map((token) => marks[token] ?? token);
      return { name: m.name, value, raw: texts(m.name, value) };
    });
}

const textOf = (name, value) => ({ name, value, raw: Buffer.concat([text(name), u32(8), text(value)]) });

/** The sign that stands for a token in one place of its vector. */
function sign(token, place) {
  let x = Math.imul(token * 4096 + place + 1, 0x9e3779b1);
  x = Math.imul(x ^ (x >>> 15), 0x85ebca6b);
  return (x ^ (x >>> 13)) & 1 ? 1 : -1;
}

/** A matrix whose rows are the vectors of tokens, or nothing. */
function matrix(tokens, width, scale) {
  const out = Buffer.alloc((tokens.length * width * q8.bytes) / q8.values);
  let at = 0;
  for (const token of tokens) {
    for (let place = 0; place < width; place++) {
      if (place % q8.values === 0) at = out.writeUInt16LE(token === undefined ? 0 : scale, at);
      at = out.writeInt8(token === undefined ? 0 : sign(token, place), at);
    }
  }
  return out;
}

/** Writes such a model. It thinks the words it has, so many, once each, and then says the answer: words that it has, too. */
export async function writeThinker(path, { thoughts, answer }) {
  const bytes = await readFile(source);
  const { metadata: given, tensors } = parse(bytes);
  const metadata = rename(given);
  const vocabulary = metadata.find((m) => m.name === 'tokenizer.ggml.tokens').value;
  const id = (piece) => {
    const found = vocabulary.indexOf(piece.replaceAll(' ', 'Ġ').replaceAll('\n', 'Ċ'));
    if (found < 0) throw new Error(`the vocabulary lacks ${JSON.stringify(piece)}`);
    return found;
  };
  const words = vocabulary.filter((v) => /^Ġ[a-z]{3,}$/.test(v) && !answer.includes(v.replace('Ġ', ' '))).slice(0, thoughts);
  const chain = ['\n', ...words, '</think>', ...answer, '<|im_end|>'].map(id);
  if (new Set(chain).size < chain.length) throw new Error('a token can be said once only');

  const callers = Array(vocabulary.length).fill(undefined);
  chain.slice(1).forEach((token, i) => (callers[token] = chain[i]));
  const embedding = tensors.find((t) => t.name === 'token_embd.weight');
  const [width] = embedding.shape;
  for (const t of tensors) {
    if (/attn_output|ffn_down/.test(t.name)) t.data = Buffer.alloc(t.data.length);
    if (t.name === 'output_norm.weight') t.data = Buffer.from(new Float32Array(width).fill(1).buffer);
  }
  embedding.data = matrix(vocabulary.map((_, token) => token), width, oneHalfFloat);
  tensors.push({ name: 'output.weight', shape: embedding.shape, kind: q8.kind, data: matrix(callers, width, tenthHalfFloat) });
  await writeFile(path, assemble(bytes, { metadata, tensors }));
  return words.map((w) => w.replace('Ġ', ' ')).join('');
}
