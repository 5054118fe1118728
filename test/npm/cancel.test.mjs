import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ask, clients, connect, failureOf, metric, metricBecomes, polly, post, serveParley } from './parley.mjs';

const server = serveParley();
const inFlight = 'parley_requests_in_flight';
const cancelled = 'parley_finish_total{reason="cancelled"}';

/** An answer that takes much longer than a test waits for the first words. */
const endless = (more) => ask('Tell me a long story.', { model: polly, max_tokens: 1900, ignore_eos: true, ...more });

for (const [name, Client] of clients) {
  describe(`leaving, ${name}`, () => {
    test('in the middle of a stream', async () => {
      const before = await metric(server, cancelled);
      const leave = new AbortController();
      const stream = await connect(Client, server).chat.completions.create(endless({ stream: true }), { signal: leave.signal });
      let words = 0;
      for await (const chunk of stream) {
        assert.equal(chunk.choices[0].finish_reason, null);
        if (++words === 5) {
          assert.equal(await metric(server, inFlight), 1);
          leave.abort();
        }
      }
      assert.ok(words >= 5);
      await metricBecomes(server, inFlight, 0);
      assert.equal(await metric(server, cancelled), before + 1);
    });

    test('by breaking out of the loop', async () => {
      const before = await metric(server, cancelled);
      const stream = await connect(Client, server).chat.completions.create(endless({ stream: true }));
      for await (const chunk of stream) {
        if (chunk.choices[0].delta.content) break;
      }
      await metricBecomes(server, inFlight, 0);
      assert.equal(await metric(server, cancelled), before + 1);
    });

    test('while waiting for a whole answer', async () => {
      const before = await metric(server, cancelled);
      const leave = new AbortController();
      const answer = failureOf(connect(Client, server).chat.completions.create(endless(), { signal: leave.signal }));
      await metricBecomes(server, inFlight, 1);
      leave.abort();
      assert.ok(await answer instanceof Client.APIUserAbortError);
      await metricBecomes(server, inFlight, 0);
      assert.equal(await metric(server, cancelled), before + 1);
    });

    test('the stream() helper\'s abort', async () => {
      const stream = connect(Client, server).chat.completions.stream(endless());
      const done = failureOf(stream.done());
      stream.once('content', () => stream.abort());
      assert.ok(await done instanceof Client.APIUserAbortError);
      await metricBecomes(server, inFlight, 0);
    });

    test('one of several does not disturb the others', async () => {
      const client = connect(Client, server);
      const body = ask('Tell me a story about a boat.', { model: polly, max_tokens: 48 });
      const alone = (await client.chat.completions.create(body)).choices[0].message.content;
      const leaving = await client.chat.completions.create(endless({ stream: true, n: 3 }));
      const staying = [client.chat.completions.create(body), client.chat.completions.create(body)];
      for await (const chunk of leaving) {
        if (chunk.choices[0].delta.content) break;
      }
      for (const answer of await Promise.all(staying)) assert.equal(answer.choices[0].message.content, alone);
      await metricBecomes(server, inFlight, 0);
    });
  });
}

test('many at once leave nothing behind', async () => {
  const [, Client] = clients[0];
  const before = await metric(server, cancelled);
  await Promise.all(Array.from({ length: 6 }, async (_, i) => {
    const stream = await connect(Client, server).chat.completions.create(endless({ stream: true, seed: i, temperature: 1 }));
    for await (const chunk of stream) {
      if (chunk.choices[0].delta.content) break;
    }
  }));
  await metricBecomes(server, inFlight, 0);
  assert.equal(await metric(server, cancelled), before + 6);
  const after = await post(server, '/v1/chat/completions', JSON.stringify(ask('Hi', { max_tokens: 4 })));
  assert.equal(after.status, 200);
});
