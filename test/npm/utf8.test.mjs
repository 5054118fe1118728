import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { ask, chunksOf, clients, connect, mini, post, serveParley, textOf, vocabularyOf } from './parley.mjs';

const server = serveParley();
const [, Client] = clients[0];
const create = (body) => connect(Client, server).chat.completions.create(body);
const replacement = '\ufffd';

/** Several scripts, composed emoji, and characters that JSON must escape. */
const scripts = 'naïve Straße — „quoted“ 日本語 한국어 العربية हिन्दी 🦜👩‍👩‍👧‍👦🇫🇷 a\u0301 "\\/\b\f\n\r\t\u0001\u2028\u2029 end';

describe('text that goes in', () => {
  test('comes out of an echo as it was', async () => {
    const client = connect(Client, server);
    const whole = await client.completions.create({ model: mini, prompt: scripts, echo: true, max_tokens: 0 });
    assert.equal(whole.choices[0].text, scripts);
    const chunks = await chunksOf(await client.completions.create({ model: mini, prompt: scripts, echo: true, max_tokens: 1, stream: true }));
    assert.ok(chunks.map((c) => c.choices[0].text).join('').startsWith(scripts));
  });

  test('is the same whether or not its JSON is escaped', async () => {
    const plain = JSON.stringify(ask(scripts));
    const escaped = plain.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
    assert.notEqual(plain, escaped);
    const [a, b] = [await post(server, '/v1/chat/completions', plain), await post(server, '/v1/chat/completions', escaped)];
    const [x, y] = [await a.json(), await b.json()];
    assert.equal(x.usage.prompt_tokens, y.usage.prompt_tokens);
    assert.deepEqual(x.choices, y.choices);
  });
});

describe('text that comes out', () => {
  const text = '日🦜→';
  let vocabulary, forced;

  before(async () => {
    vocabulary = await vocabularyOf(server);
    forced = await forcing(text);
  });

  /**
   * Makes the model write exactly these characters: each of their tokens is
   * biased a little less than the one before, and the repetition penalty takes
   * a token out once it was written. No token may occur twice.
   */
  async function forcing(characters) {
    const listed = await connect(Client, server).completions.create({ model: mini, prompt: characters, echo: true, max_tokens: 0, logprobs: 0 });
    const ids = listed.choices[0].logprobs.tokens.map((t) => vocabulary.indexOf(t));
    assert.equal(new Set(ids).size, ids.length, 'every token once');
    assert.ok(ids.length > [...characters].length * 2, 'the characters take several tokens each');
    const logit_bias = Object.fromEntries(ids.map((id, i) => [id, 100 - 8 * i]));
    return ask('Hi', { logit_bias, repetition_penalty: 10, max_tokens: ids.length });
  }

  test('characters of several tokens are whole in every chunk', async () => {
    const whole = await create(forced);
    assert.equal(whole.choices[0].message.content, text);
    const chunks = await chunksOf(await create({ ...forced, stream: true }));
    assert.equal(textOf(chunks), text);
    for (const chunk of chunks) assert.ok(!(chunk.choices[0].delta.content ?? '').includes(replacement));
  });

  test('the wire itself never splits one', async () => {
    const response = await post(server, '/v1/chat/completions', JSON.stringify({ ...forced, stream: true }));
    const strict = new TextDecoder('utf-8', { fatal: true });
    for (const event of Buffer.from(await response.arrayBuffer()).toString('latin1').split('\n\n')) {
      strict.decode(Buffer.from(event, 'latin1'));
    }
  });

  test('log-probabilities carry the bytes of each token', async () => {
    const whole = await create({ ...forced, logprobs: true, top_logprobs: 2 });
    const { content } = whole.choices[0].logprobs;
    assert.equal(content.length, forced.max_tokens);
    assert.equal(Buffer.from(content.flatMap((t) => t.bytes)).toString(), text);
    const chunks = await chunksOf(await create({ ...forced, logprobs: true, top_logprobs: 2, stream: true }));
    assert.deepEqual(chunks.flatMap((c) => c.choices[0].logprobs?.content ?? []), content);
  });

  test('a stop string of several tokens', async () => {
    for (const [stop, left] of [['🦜', '日'], ['日', ''], ['🦜→', '日'], ['→', '日🦜']]) {
      const whole = await create({ ...forced, stop });
      const chunks = await chunksOf(await create({ ...forced, stop, stream: true }));
      assert.deepEqual([whole.choices[0].message.content, textOf(chunks)], [left, left]);
      assert.equal(whole.choices[0].finish_reason, 'stop');
    }
  });

  test('bytes that are no text are the same in a stream and in a whole answer', async () => {
    const bytes = vocabulary.flatMap((t, id) => (t.startsWith('bytes:') ? [[id, 12]] : []));
    assert.ok(bytes.length > 64);
    let broken = 0;
    for (let seed = 0; seed < 5; seed++) {
      const body = ask('Hi', { temperature: 2, seed, logit_bias: Object.fromEntries(bytes), max_tokens: 60, ignore_eos: true, logprobs: true });
      const whole = await create(body);
      const content = whole.choices[0].message.content;
      if (content.includes(replacement)) broken++;
      // Half a character at the very end is left out of the text, and so are control tokens, which are listed.
      const listed = whole.choices[0].logprobs.content.filter((t) => !/^<\|.*\|>$/.test(t.token));
      const spelled = Buffer.from(listed.flatMap((t) => t.bytes)).toString();
      assert.ok(spelled === content || spelled === content + replacement, `${spelled} is not ${content}`);
      assert.equal(textOf(await chunksOf(await create({ ...body, stream: true }))), content);
    }
    assert.ok(broken > 0, 'the bias makes bytes that are no text');
  });
});
