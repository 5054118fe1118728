import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ask, checkUsage, chunksOf, clients, connect, mini, post, serveParley, textOf } from './parley.mjs';

const server = serveParley();
const question = 'Tell me a story about a fox.';

for (const [name, Client] of clients) {
  describe(`chat stream, ${name}`, () => {
    const create = (body) => connect(Client, server).chat.completions.create(body);

    test('chunks together are the whole answer', async () => {
      const whole = await create(ask(question));
      const chunks = await chunksOf(await create(ask(question, { stream: true })));
      assert.equal(textOf(chunks), whole.choices[0].message.content);
      assert.equal(chunks.at(-1).choices[0].finish_reason, whole.choices[0].finish_reason);
    });

    test('every chunk has the same head, the first the role, the last the reason', async () => {
      const chunks = await chunksOf(await create(ask(question, { stream: true })));
      assert.match(chunks[0].id, /^chatcmpl-/);
      for (const chunk of chunks) {
        assert.equal(chunk.object, 'chat.completion.chunk');
        assert.deepEqual([chunk.id, chunk.created, chunk.model], [chunks[0].id, chunks[0].created, mini]);
        assert.equal(chunk.choices.length, 1);
        assert.ok(!('usage' in chunk), 'usage was not asked for');
      }
      assert.deepEqual(chunks[0].choices[0].delta, { role: 'assistant', content: '' });
      assert.deepEqual(chunks.at(-1).choices[0].delta, {});
      assert.deepEqual(new Set(chunks.slice(0, -1).map((c) => c.choices[0].finish_reason)), new Set([null]));
    });

    test('usage comes once, last, and only when asked for', async () => {
      const chunks = await chunksOf(await create(ask(question, { stream: true, stream_options: { include_usage: true } })));
      const last = chunks.pop();
      assert.deepEqual(last.choices, []);
      checkUsage(last.usage);
      for (const chunk of chunks) assert.equal(chunk.usage, null);
      const whole = await create(ask(question));
      assert.equal(last.usage.completion_tokens, whole.usage.completion_tokens);
      assert.equal(last.usage.prompt_tokens, whole.usage.prompt_tokens);
    });

    test('n streams in one', async () => {
      const body = ask(question, { n: 3, temperature: 1, seed: 5, max_tokens: 20 });
      const whole = await create(body);
      const chunks = await chunksOf(await create({ ...body, stream: true }));
      for (const { index, message, finish_reason } of whole.choices) {
        const own = chunks.filter((c) => c.choices[0].index === index);
        assert.equal(own[0].choices[0].delta.role, 'assistant');
        assert.equal(textOf(chunks, index), message.content);
        assert.deepEqual(own.map((c) => c.choices[0].finish_reason).filter(Boolean), [finish_reason]);
      }
    });

    test('the stream() helper puts the answer together', async () => {
      const whole = await create(ask(question));
      const stream = connect(Client, server).chat.completions.stream(ask(question, { stream_options: { include_usage: true } }));
      let heard = '';
      stream.on('content', (delta) => { heard += delta; });
      const final = await stream.finalChatCompletion();
      assert.equal(final.object, 'chat.completion');
      assert.equal(final.choices[0].message.role, 'assistant');
      assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
      assert.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
      assert.equal(heard, whole.choices[0].message.content);
      assert.equal((await stream.totalUsage()).total_tokens, whole.usage.total_tokens);
      assert.equal(final.usage.completion_tokens, whole.usage.completion_tokens);
    });

    test('an answer that is cut after one token', async () => {
      const final = await connect(Client, server).chat.completions.stream(ask(question, { max_tokens: 1 })).finalChatCompletion();
      assert.equal(final.choices[0].finish_reason, 'length');
      assert.equal(final.choices[0].message.role, 'assistant');
    });
  });
}

test('on the wire: unnamed events, nothing compressed or cached, [DONE] last', async () => {
  const response = await post(server, '/v1/chat/completions', JSON.stringify(ask(question, { stream: true })),
    { 'content-type': 'application/json', 'accept-encoding': 'gzip, br' });
  assert.match(response.headers.get('content-type'), /^text\/event-stream/);
  assert.equal(response.headers.get('cache-control'), 'no-cache');
  assert.equal(response.headers.get('x-accel-buffering'), 'no');
  assert.equal(response.headers.get('content-encoding'), null);
  assert.match(response.headers.get('x-request-id'), /^req_/);
  const events = (await response.text()).split('\n\n');
  assert.equal(events.pop(), '', 'the last event is complete');
  assert.equal(events.pop(), 'data: [DONE]');
  for (const event of events) {
    assert.match(event, /^data: \{.*\}$/);
    assert.equal(JSON.parse(event.slice(6)).object, 'chat.completion.chunk');
  }
});

test('text arrives while the answer is being made', async () => {
  const response = await post(server, '/v1/chat/completions', JSON.stringify(ask(question, { stream: true, max_tokens: 1500, ignore_eos: true })));
  let pieces = 0;
  for await (const bytes of response.body) pieces += bytes.length > 0 ? 1 : 0;
  assert.ok(pieces > 10, `1500 tokens came in ${pieces} pieces`);
});
