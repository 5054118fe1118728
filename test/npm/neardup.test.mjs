import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import OpenAI from 'openai';
import { ask, connect, metric, serveParley } from './parley.mjs';

const server = serveParley('--near-duplicates', '0.9');
const header = 'x-parley-near-duplicate';

const say = async (content, more = {}) => {
  const { data, response } = await connect(OpenAI, server).chat.completions.create(ask(content, { temperature: 1, max_tokens: 60, ...more })).withResponse();
  return { text: data.choices[0].message.content, similarity: response.headers.get(header), usage: data.usage };
};

describe('near duplicates', () => {
  test('questions that are nearly the same share one answer', async () => {
    const questions = ['What is the capital of France?', 'What is the capital city of France?', 'what is the capital of France'];
    const answers = await Promise.all(questions.map((q) => say(q)));
    const shared = answers.filter((a) => a.similarity !== null);
    assert.ok(shared.length >= 1, JSON.stringify(answers));
    for (const a of shared) {
      assert.ok(answers.some((b) => b.similarity === null && b.text === a.text));
      assert.ok(Number(a.similarity) >= 0.9 && Math.abs(a.usage.prompt_tokens_details.near_duplicate - a.similarity) < 1e-4);
      assert.equal(a.usage.prompt_tokens_details.cached_tokens, a.usage.prompt_tokens);
    }
    assert.equal(await metric(server, 'parley_near_duplicates_total'), shared.length);
  });

  test('other questions, numbers and settings do not', async () => {
    const first = await say('How many legs do 3 cats have?');
    const others = [await say('How many legs do 4 cats have?'), await say('How many legs do 3 cats have?', { temperature: 0.5 }), await say('Write a poem about the cold sea at night.')];
    for (const a of [first, ...others]) assert.equal(a.similarity, null, JSON.stringify(a));
  });
});
