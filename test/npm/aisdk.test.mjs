import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embed, embedMany, generateObject, generateText, streamObject, streamText, tool } from 'ai';
import { z } from 'zod';
import { clients, connect, failureOf, metric, metricBecomes, mini, polly, serveParley } from './parley.mjs';

const server = serveParley();
const prompt = 'Tell me a story about a fox.';
const steady = { temperature: 0, maxOutputTokens: 40, maxRetries: 0 };

const providers = [
  ['@ai-sdk/openai-compatible', (model) => createOpenAICompatible({ name: 'parley', baseURL: `${server.url}/v1`, apiKey: 'any', includeUsage: true })(model)],
  ['@ai-sdk/openai, chat', (model) => createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'any' }).chat(model)],
];

function checkUsage(usage) {
  assert.ok(Number.isInteger(usage.inputTokens) && usage.inputTokens > 0, JSON.stringify(usage));
  assert.ok(Number.isInteger(usage.outputTokens) && usage.outputTokens > 0, JSON.stringify(usage));
  assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens);
  assert.ok(Number.isInteger(usage.inputTokenDetails.cacheReadTokens));
  assert.equal(usage.outputTokenDetails.reasoningTokens, 0);
}

for (const [name, modelOf] of providers) {
  describe(name, () => {
    test('generateText', async () => {
      const [, Client] = clients[0];
      const direct = await connect(Client, server).chat.completions.create({
        model: mini, messages: [{ role: 'system', content: 'Be kind.' }, { role: 'user', content: prompt }], temperature: 0, max_tokens: 40,
      });
      const result = await generateText({ model: modelOf(mini), instructions: 'Be kind.', prompt, ...steady });
      assert.equal(result.text, direct.choices[0].message.content);
      assert.equal(result.finishReason, direct.choices[0].finish_reason);
      assert.equal(result.usage.outputTokens, direct.usage.completion_tokens);
      checkUsage(result.usage);
      assert.match(result.response.id, /^chatcmpl-/);
      assert.equal(result.response.modelId, mini);
    });

    test('streamText, with usage', async () => {
      // A question of its own: an answer that is known already comes in one piece.
      const question = { model: modelOf(mini), prompt: `Stream to ${name}: ${prompt}`, ...steady };
      const result = streamText({ ...question, onError: ({ error }) => assert.fail(error) });
      let text = '';
      let pieces = 0;
      for await (const piece of result.textStream) {
        text += piece;
        pieces++;
      }
      const whole = await generateText(question);
      assert.equal(text, whole.text);
      assert.ok(pieces > 1);
      assert.equal(await result.finishReason, whole.finishReason);
      const usage = await result.usage;
      checkUsage(usage);
      assert.equal(usage.outputTokens, whole.usage.outputTokens);
    });

    test('maxOutputTokens and stopSequences', async () => {
      const cut = await generateText({ model: modelOf(mini), prompt, ...steady, maxOutputTokens: 3 });
      assert.equal(cut.finishReason, 'length');
      assert.equal(cut.usage.outputTokens, 3);
      const whole = await generateText({ model: modelOf(mini), prompt, ...steady });
      const stop = whole.text.slice(20, 24);
      const stopped = await generateText({ model: modelOf(mini), prompt, ...steady, stopSequences: [stop] });
      assert.equal(stopped.finishReason, 'stop');
      assert.equal(stopped.text, whole.text.slice(0, whole.text.indexOf(stop)));
    });

    test('abort in the middle of a stream', async () => {
      const before = await metric(server, 'parley_finish_total{reason="cancelled"}');
      const leave = new AbortController();
      const result = streamText({
        model: modelOf(polly), prompt: 'Tell me a long story.', temperature: 1, seed: 1, maxOutputTokens: 1900, maxRetries: 0, abortSignal: leave.signal,
      });
      const parts = [];
      for await (const part of result.stream) {
        parts.push(part.type);
        if (part.type === 'text-delta') leave.abort();
      }
      assert.ok(parts.includes('text-delta'));
      assert.equal(parts.at(-1), 'abort');
      await metricBecomes(server, 'parley_requests_in_flight', 0);
      assert.equal(await metric(server, 'parley_finish_total{reason="cancelled"}'), before + 1);
    });

    test('an error keeps its status and its words', async () => {
      const err = await failureOf(generateText({ model: modelOf('nobody'), prompt, ...steady }));
      assert.ok(APICallError.isInstance(err), String(err));
      assert.equal(err.statusCode, 404);
      assert.match(err.message, /nobody/);
      assert.equal(err.isRetryable, false);
    });
  });
}

const pet = z.object({ name: z.string().max(12), animal: z.enum(['cat', 'dog']), age: z.number().int().min(0).max(20) });
const compatible = ['@ai-sdk/openai-compatible', (model) => createOpenAICompatible({ name: 'parley', baseURL: `${server.url}/v1`, apiKey: 'any', supportsStructuredOutputs: true })(model)];
const responses = ['@ai-sdk/openai, responses', (model) => createOpenAI({ baseURL: `${server.url}/v1`, apiKey: server.token })(model)];

for (const [name, modelOf] of [compatible, providers[1], responses]) {
  describe(`objects and tools, ${name}`, () => {
    const long = { ...steady, temperature: 1, maxOutputTokens: 400 };

    test('generateObject and streamObject', async () => {
      pet.parse((await generateObject({ model: modelOf(mini), schema: pet, prompt: 'A pet.', ...long })).object);
      const result = streamObject({ model: modelOf(mini), schema: pet, prompt: 'A pet.', ...long });
      let last;
      for await (const partial of result.partialObjectStream) last = partial;
      assert.deepEqual(await result.object, last);
      pet.parse(last);
    });

    test('a tool that must be called, in a stream', async () => {
      const weather = tool({ inputSchema: z.object({ city: z.enum(['Rome', 'Oslo']) }), execute: async ({ city }) => `sunny in ${city}` });
      const result = streamText({ model: modelOf(mini), prompt: 'How is Rome?', tools: { weather }, toolChoice: { type: 'tool', toolName: 'weather' }, ...long });
      const types = [];
      for await (const part of result.fullStream) types.push(part.type);
      assert.ok(types.includes('tool-call') && types.includes('tool-result'), types.join());
      assert.match(JSON.stringify(await result.toolResults), /sunny in (Rome|Oslo)/);
    });
  });
}

describe('embeddings, AI SDK', () => {
  test('embed and embedMany', async () => {
    const model = createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'any' }).embedding(mini);
    const one = await embed({ model, value: 'a fox' });
    assert.ok(one.embedding.length > 0 && one.usage.tokens > 0);
    const many = await embedMany({ model, values: ['a fox', 'a cat', 'the sea'] });
    assert.equal(many.embeddings.length, 3);
    many.embeddings[0].forEach((x, i) => assert.ok(Math.abs(x - one.embedding[i]) < 1e-4));
  });
});
