import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ChatAnthropic } from '@langchain/anthropic';
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';
import { chunksOf, failureOf, mini, serveParley } from './parley.mjs';

const server = serveParley();
const settings = { model: mini, temperature: 0, maxTokens: 40, maxRetries: 0 };
const openai = (more = {}) => new ChatOpenAI({ ...settings, apiKey: 'any', configuration: { baseURL: `${server.url}/v1` }, ...more });
const anthropic = (more = {}) => new ChatAnthropic({ ...settings, apiKey: 'any', anthropicApiUrl: server.url, ...more });
const models = [['ChatOpenAI', openai], ['ChatOpenAI by responses', (more) => openai({ useResponsesApi: true, ...more })], ['ChatAnthropic', anthropic]];

const weather = tool(({ city, unit }) => `18 ${unit} in ${city}`, {
  name: 'weather', description: 'The weather of a city.',
  schema: z.object({ city: z.enum(['Rome', 'Oslo']), unit: z.enum(['c', 'f']) }),
});
const pet = z.object({ name: z.string().max(12), animal: z.enum(['cat', 'dog']), age: z.number().int().min(0).max(20) });

/** The text of a message, whose content may be a string or blocks. */
const textOf = (message) => (typeof message.content === 'string' ? message.content : message.content.map((block) => block.text ?? '').join(''));

for (const [name, model] of models) {
  describe(`langchain, ${name}`, () => {
    test('a question is answered, with its cost', async () => {
      const answer = await model().invoke([new SystemMessage('Be brief.'), new HumanMessage('Hello!')]);
      assert.ok(textOf(answer).length > 0);
      const { input_tokens, output_tokens, total_tokens } = answer.usage_metadata;
      assert.ok(input_tokens > 0 && output_tokens > 0);
      assert.equal(total_tokens, input_tokens + output_tokens);
    });

    test('a stream is the same answer in pieces', async () => {
      const whole = await model().invoke('Tell me of the moon.');
      const chunks = await chunksOf(await model().stream('Tell me of the moon.'));
      assert.ok(chunks.length > 2);
      assert.equal(chunks.map(textOf).join(''), textOf(whole));
      const all = chunks.reduce((sum, chunk) => sum.concat(chunk));
      assert.equal(all.usage_metadata.output_tokens, whole.usage_metadata.output_tokens);
    });

    test('a tool is called, and its result answered', async () => {
      const question = new HumanMessage('What is the weather in Rome?');
      const calling = model({ maxTokens: 400 }).bindTools([weather], { tool_choice: 'weather' });
      const asked = await calling.invoke([question]);
      assert.deepEqual(asked.tool_calls.map((call) => call.name), ['weather']);
      const [call] = asked.tool_calls;
      assert.ok(['Rome', 'Oslo'].includes(call.args.city) && ['c', 'f'].includes(call.args.unit), JSON.stringify(call));
      const result = await weather.invoke(call);
      assert.ok(result instanceof ToolMessage);
      const answer = await model().bindTools([weather], { tool_choice: 'none' }).invoke([question, asked, result]);
      assert.ok(answer instanceof AIMessage && textOf(answer).length > 0);
    });

    test('a tool is called in a stream', async () => {
      const calling = model({ maxTokens: 400 }).bindTools([weather], { tool_choice: 'weather' });
      const all = (await chunksOf(await calling.stream('What is the weather in Oslo?'))).reduce((sum, chunk) => sum.concat(chunk));
      assert.equal(all.tool_calls.length, 1);
      assert.ok(['Rome', 'Oslo'].includes(all.tool_calls[0].args.city), JSON.stringify(all.tool_calls));
    });

    test('structured output has the shape', async () => {
      const methods = name === 'ChatAnthropic' ? ['functionCalling'] : ['jsonSchema', 'functionCalling'];
      for (const method of methods) {
        const given = await model({ maxTokens: 400, temperature: 1 }).withStructuredOutput(pet, { name: 'pet', method }).invoke('Make up a pet.');
        pet.parse(given);
      }
    });

    test('an unknown model is an error', async () => {
      const err = await failureOf(model({ model: 'nobody' }).invoke('Hi'));
      assert.equal(err.status, 404);
    });
  });
}

describe('langchain, embeddings', () => {
  const embeddings = (more = {}) => new OpenAIEmbeddings({ model: mini, apiKey: 'any', maxRetries: 0, configuration: { baseURL: `${server.url}/v1` }, ...more });

  test('texts that mean the same are near', async () => {
    const [a, b, c] = await embeddings().embedDocuments(['What is the capital of France?', 'Tell me the capital city of France.', 'My cat likes to sleep in the sun all day.']);
    const near = (x, y) => x.reduce((sum, v, i) => sum + v * y[i], 0);
    assert.ok(Math.abs(near(a, a) - 1) < 1e-3);
    assert.ok(near(a, b) > near(a, c));
    const alone = await embeddings().embedQuery('What is the capital of France?');
    assert.ok(near(a, alone) > 0.999);
  });

  test('dimensions are cut', async () => {
    const vector = await embeddings({ dimensions: 64 }).embedQuery('Hello');
    assert.equal(vector.length, 64);
  });
});
