import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { clients, connect, failureOf, mini, polly, post, serveParley } from './parley.mjs';

const server = serveParley();
const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

for (const [name, Client] of clients) {
  describe(`embeddings, ${name}`, () => {
    const create = (body) => connect(Client, server).embeddings.create({ model: mini, ...body });
    const input = ['What is the capital of France?', 'Tell me the capital city of France.', 'My cat sleeps in the sun all day.'];

    test('the library asks for base64 unasked, and both forms are the same numbers', async () => {
      const coded = await create({ input });
      const listed = await create({ input, encoding_format: 'float' });
      assert.deepEqual(coded.data.map((d) => d.index), [0, 1, 2]);
      assert.deepEqual(coded.data.map((d) => Array.from(d.embedding, Math.fround)), listed.data.map((d) => d.embedding.map(Math.fround)));
      for (const { embedding } of listed.data) assert.ok(Math.abs(dot(embedding, embedding) - 1) < 1e-5, 'the length is 1');
      assert.equal(coded.usage.prompt_tokens, coded.usage.total_tokens);
    });

    test('texts that mean the same are near', async () => {
      const { data: [a, near, far] } = await create({ model: polly, input, encoding_format: 'float' });
      assert.ok(dot(a.embedding, near.embedding) > dot(a.embedding, far.embedding));
    });

    test('fewer dimensions are the first ones, to the length 1', async () => {
      const [whole, cut] = [await create({ input: 'fox' }), await create({ input: 'fox', dimensions: 8 })];
      const first = Array.from(whole.data[0].embedding).slice(0, 8);
      const scale = Math.sqrt(dot(first, first));
      assert.equal(cut.data[0].embedding.length, 8);
      first.forEach((x, i) => assert.ok(Math.abs(x / scale - cut.data[0].embedding[i]) < 1e-6));
    });

    test('token ids', async () => {
      const answer = await create({ input: [[310, 420], [530]] });
      assert.equal(answer.data.length, 2);
      assert.equal(answer.usage.prompt_tokens, 3);
    });

    test('what cannot be embedded is refused', async () => {
      for (const [body, param, code] of [
        [{ input: '' }, 'input', 'empty_string'],
        [{ input: 'fox '.repeat(4000) }, 'input', 'context_length_exceeded'],
        [{ input: 'fox', dimensions: 100_000 }, 'dimensions', 'integer_above_max_value'],
        [{ input: 'fox', dimensions: 60_000 }, 'dimensions', 'integer_above_max_value'],
      ]) {
        const err = await failureOf(create(body));
        assert.deepEqual([err.status, err.param, err.code], [400, param, code]);
      }
    });
  });
}

test('documents are put in order by what they say', async () => {
  const documents = ['My cat sleeps in the sun all day.', 'Tell me the capital city of France.'];
  const response = await post(server, '/v1/rerank', JSON.stringify({ model: polly, query: 'What is the capital of France?', documents, return_documents: true }));
  const { results, usage } = await response.json();
  assert.deepEqual(results.map((r) => r.index), [1, 0]);
  assert.equal(results[0].document.text, documents[1]);
  assert.ok(results[0].relevance_score > results[1].relevance_score && usage.total_tokens > 0);
});
