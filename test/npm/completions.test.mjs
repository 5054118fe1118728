import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkUsage, chunksOf, clients, connect, failureOf, mini, serveParley } from './parley.mjs';

const server = serveParley();
const opening = 'Once upon a time there was a fox who';
const continuing = (prompt, more = {}) => ({ model: mini, prompt, temperature: 0, max_tokens: 24, ...more });

for (const [name, Client] of clients) {
  describe(`completions, ${name}`, () => {
    const create = (body) => connect(Client, server).completions.create(body);

    test('a text is continued; 16 tokens when nothing is said', async () => {
      const answer = await create(continuing(opening, { max_tokens: undefined, ignore_eos: true }));
      assert.match(answer.id, /^cmpl-/);
      assert.equal(answer.object, 'text_completion');
      assert.equal(answer.model, mini);
      assert.match(answer._request_id, /^req_/);
      assert.equal(answer.choices.length, 1);
      const [choice] = answer.choices;
      assert.equal(choice.index, 0);
      assert.ok(choice.text.length > 0 && !choice.text.startsWith(opening));
      assert.equal(choice.logprobs, null);
      assert.equal(choice.finish_reason, 'length');
      assert.equal(answer.usage.completion_tokens, 16);
      checkUsage(answer.usage);
    });

    test('a list of texts gives one choice for each', async () => {
      const prompts = [opening, 'The moon is', 'A boat'];
      const alone = [];
      for (const prompt of prompts) alone.push(await create(continuing(prompt)));
      const answer = await create(continuing(prompts));
      assert.deepEqual(answer.choices.map((c) => c.index), [0, 1, 2]);
      assert.deepEqual(answer.choices.map((c) => c.text), alone.map((a) => a.choices[0].text));
      for (const key of ['prompt_tokens', 'completion_tokens']) {
        assert.equal(answer.usage[key], alone.reduce((sum, a) => sum + a.usage[key], 0), key);
      }
    });

    test('n choices for each of several texts, in order', async () => {
      const answer = await create(continuing([opening, 'The moon is'], { n: 2, echo: true, temperature: 1, seed: 4 }));
      assert.deepEqual(answer.choices.map((c) => c.index), [0, 1, 2, 3]);
      assert.ok(answer.choices.slice(0, 2).every((c) => c.text.startsWith(opening)));
      assert.ok(answer.choices.slice(2).every((c) => c.text.startsWith('The moon is')));
    });

    test('token ids mean the same as the text they spell', async () => {
      const ids = [310, 420, 530, 640];
      const spelled = await create(continuing(ids, { echo: true, max_tokens: 0 }));
      assert.equal(spelled.usage.prompt_tokens, ids.length);
      const text = spelled.choices[0].text;
      const answer = await create(continuing(ids));
      const echoed = await create(continuing(ids, { echo: true }));
      assert.equal(echoed.choices[0].text, text + answer.choices[0].text);
      const listed = await create(continuing([ids, [700]], { echo: true }));
      assert.equal(listed.choices.length, 2);
      assert.equal(listed.choices[0].text, echoed.choices[0].text);
    });

    test('echo puts the text before its continuation', async () => {
      const [plain, echoed] = [await create(continuing(opening)), await create(continuing(opening, { echo: true }))];
      assert.equal(echoed.choices[0].text, opening + plain.choices[0].text);
      const only = await create(continuing(opening, { echo: true, max_tokens: 0 }));
      assert.equal(only.choices[0].text, opening);
      assert.equal(only.choices[0].finish_reason, 'length');
      assert.equal(only.usage.completion_tokens, 0);
    });

    test('log-probabilities of an echoed text and its continuation', async () => {
      const answer = await create(continuing(opening, { echo: true, logprobs: 3 }));
      const [{ text, logprobs: { tokens, token_logprobs, top_logprobs, text_offset } }] = answer.choices;
      for (const list of [token_logprobs, top_logprobs, text_offset]) assert.equal(list.length, tokens.length);
      assert.equal(tokens.length, answer.usage.total_tokens);
      assert.equal(tokens.join(''), text);
      assert.deepEqual([token_logprobs[0], top_logprobs[0], text_offset[0]], [null, null, 0]);
      for (let i = 1; i < tokens.length; i++) {
        assert.ok(token_logprobs[i] <= 0);
        assert.equal(text.slice(text_offset[i], text_offset[i] + tokens[i].length), tokens[i]);
        assert.ok(Object.keys(top_logprobs[i]).length >= 3 && Object.keys(top_logprobs[i]).length <= 4);
        assert.equal(top_logprobs[i][tokens[i]], token_logprobs[i]);
      }
    });

    test('a stream is the same answer in pieces', async () => {
      const body = continuing([opening, 'The moon is'], { logprobs: 2 });
      const whole = await create(body);
      const chunks = await chunksOf(await create({ ...body, stream: true, stream_options: { include_usage: true } }));
      const last = chunks.pop();
      assert.deepEqual(last.choices, []);
      assert.deepEqual([last.usage.prompt_tokens, last.usage.completion_tokens], [whole.usage.prompt_tokens, whole.usage.completion_tokens]);
      for (const chunk of chunks) assert.deepEqual([chunk.object, chunk.id, chunk.usage], ['text_completion', chunks[0].id, null]);
      for (const choice of whole.choices) {
        const own = chunks.map((c) => c.choices[0]).filter((c) => c.index === choice.index);
        assert.equal(own.map((c) => c.text).join(''), choice.text);
        assert.deepEqual(own.map((c) => c.finish_reason).filter(Boolean), [choice.finish_reason]);
        assert.deepEqual(own.flatMap((c) => c.logprobs?.tokens ?? []), choice.logprobs.tokens);
      }
    });

    test('a streamed echo begins with the text', async () => {
      const whole = await create(continuing(opening, { echo: true }));
      const chunks = await chunksOf(await create(continuing(opening, { echo: true, stream: true })));
      assert.equal(chunks.map((c) => c.choices[0].text).join(''), whole.choices[0].text);
      assert.ok(!('usage' in chunks.at(-1)), 'usage was not asked for');
    });

    test('the built-in models have tokens for a gap, so a suffix is taken', async () => {
      const [plain, gap] = [await create(continuing(opening)), await create(continuing(opening, { suffix: ' and went home.' }))];
      assert.ok(gap.usage.prompt_tokens > plain.usage.prompt_tokens + 3, 'text, suffix and three marks');
      assert.ok(['stop', 'length'].includes(gap.choices[0].finish_reason));
      const again = await create(continuing(opening, { suffix: ' and went home.' }));
      assert.equal(again.choices[0].text, gap.choices[0].text);
      const err = await failureOf(create(continuing(opening, { suffix: ' and went home.', echo: true })));
      assert.ok(err instanceof Client.BadRequestError);
      assert.equal(err.param, 'suffix');
    });

    test('best_of returns the most probable of several', async () => {
      const answer = await create(continuing(opening, { best_of: 4, n: 2, temperature: 1, seed: 9, ignore_eos: true, logprobs: 0 }));
      assert.deepEqual(answer.choices.map((c) => c.index), [0, 1]);
      assert.equal(answer.usage.completion_tokens, 4 * 24);
      const [first, second] = answer.choices.map((c) => c.logprobs.token_logprobs.reduce((a, b) => a + b) / c.logprobs.tokens.length);
      assert.ok(first >= second, `${first} ${second}`);
    });

    test('stop strings end it', async () => {
      const full = (await create(continuing(opening))).choices[0].text;
      const stop = full.slice(12, 16);
      const answer = await create(continuing(opening, { stop }));
      assert.equal(answer.choices[0].text, full.slice(0, full.indexOf(stop)));
      assert.equal(answer.choices[0].finish_reason, 'stop');
    });

    test('what cannot be continued is refused', async () => {
      for (const [body, param] of [
        [{ model: mini }, 'prompt'],
        [continuing([]), 'prompt'],
        [continuing([1_000_000]), 'prompt'],
        [continuing(opening, { logprobs: 6 }), 'logprobs'],
        [continuing(opening, { best_of: 1, n: 2 }), 'best_of'],
      ]) {
        const err = await failureOf(create(body));
        assert.ok(err instanceof Client.BadRequestError, String(err));
        assert.equal(err.param, param);
      }
      const long = await failureOf(create(continuing('fox '.repeat(4000))));
      assert.deepEqual([long.status, long.code, long.param], [400, 'context_length_exceeded', 'prompt']);
    });
  });
}
