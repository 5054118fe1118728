import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { toFile } from 'openai';
import { clients, connect, failureOf, mini, serveParley } from './parley.mjs';

const server = serveParley();

for (const [name, Client] of clients) {
  describe(`files and batches, ${name}`, () => {
    const client = () => connect(Client, server);
    const upload = (lines) => toFile(Buffer.from(lines.map((l) => JSON.stringify(l)).join('\n')), 'input.jsonl')
      .then((file) => client().files.create({ file, purpose: 'batch' }));
    const over = async (id) => {
      for (let i = 0; i < 600; i++) {
        const batch = await client().batches.retrieve(id);
        if (['completed', 'failed', 'cancelled', 'expired'].includes(batch.status)) return batch;
        await pause(50);
      }
      assert.fail('the batch does not end');
    };

    test('a batch of chats is answered', async () => {
      const asked = Array.from({ length: 6 }, (_, i) => ({
        custom_id: `q${i}`, method: 'POST', url: '/v1/chat/completions',
        body: { model: i === 5 ? 'nope' : mini, messages: [{ role: 'user', content: `Hello ${i}` }], max_tokens: 8 },
      }));
      const file = await upload(asked);
      assert.deepEqual([file.object, file.purpose, file.filename], ['file', 'batch', 'input.jsonl']);
      const created = await client().batches.create({ input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h', metadata: { a: 'b' } });
      assert.equal(created.expires_at - created.created_at, 86_400);
      const batch = await over(created.id);
      assert.equal(batch.status, 'completed');
      assert.deepEqual(batch.request_counts, { total: 6, completed: 5, failed: 1 });
      const output = (await (await client().files.content(batch.output_file_id)).text()).trim().split('\n').map((l) => JSON.parse(l));
      assert.deepEqual(output.map((l) => l.custom_id).sort(), ['q0', 'q1', 'q2', 'q3', 'q4']);
      for (const line of output) assert.equal(line.response.body.object, 'chat.completion');
      const failed = JSON.parse(await (await client().files.content(batch.error_file_id)).text());
      assert.deepEqual([failed.custom_id, failed.response.status_code], ['q5', 404]);
      const ids = [];
      for await (const b of client().batches.list()) ids.push(b.id);
      assert.ok(ids.includes(batch.id));
      assert.equal((await client().files.delete(file.id)).deleted, true);
      assert.equal((await failureOf(client().files.retrieve(file.id))).status, 404);
    });

    test('embeddings and completions, too; a batch can be cancelled', async () => {
      const file = await upload([{ custom_id: 'e', method: 'POST', url: '/v1/embeddings', body: { model: mini, input: ['a', 'b'] } }]);
      const batch = await over((await client().batches.create({ input_file_id: file.id, endpoint: '/v1/embeddings', completion_window: '24h' })).id);
      const line = JSON.parse(await (await client().files.content(batch.output_file_id)).text());
      assert.equal(line.response.body.data.length, 2);
      const many = await upload(Array.from({ length: 500 }, (_, i) => ({
        custom_id: `${i}`, method: 'POST', url: '/v1/completions', body: { model: mini, prompt: 'Once', max_tokens: 200, ignore_eos: true },
      })));
      const long = await client().batches.create({ input_file_id: many.id, endpoint: '/v1/completions', completion_window: '24h' });
      assert.ok(['cancelling', 'cancelled'].includes((await client().batches.cancel(long.id)).status));
      assert.equal((await over(long.id)).status, 'cancelled');
    });

    test('a bad file fails with its lines', async () => {
      const file = await upload([{ custom_id: 'a', method: 'GET', url: '/v1/completions', body: {} }]);
      const batch = await over((await client().batches.create({ input_file_id: file.id, endpoint: '/v1/completions', completion_window: '24h' })).id);
      assert.equal(batch.status, 'failed');
      assert.equal(batch.errors.data[0].line, 1);
    });
  });
}
