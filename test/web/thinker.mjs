// A model that thinks before it answers, for the real engine: the file of a built-in model with other weights. Its layers add
// nothing, and its last matrix makes each token call the next one of a text that was chosen here. What it says is known, and
// every token of it goes the way of all tokens.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { assemble, parse, text, u32, u64 } from '../gguf.mjs';

const source = fileURLToPath(new URL('../../internal/builtin/polly.gguf', import.meta.url));
const template = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n<think>\\n' }}";

/** The tokens that become the marks of thoughts, as models that think have them. */
const marks = { '<|fim_prefix|>': '<think>', '<|fim_suffix|>': '</think>' };

const q8 = { kind: 8, values: 32, bytes: 34 };
const oneHalfFloat = 0x3c00;
const tenthHalfFloat = 0x2e66;

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
