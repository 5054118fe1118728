import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { ask, checkUsage, chunksOf, clients, connect, failureOf, mini, serveParley } from './parley.mjs';

const server = serveParley();
const question = 'What is the weather in Paris?';
const parameters = { type: 'object', properties: { city: { type: 'string', maxLength: 12 }, unit: { enum: ['c', 'f'] } }, required: ['city', 'unit'], additionalProperties: false };
const weather = { type: 'function', function: { name: 'weather', description: 'The weather of a city.', parameters, strict: true } };
const clock = { type: 'function', function: { name: 'clock', description: 'The time now.' } };
const tools = [weather, clock];
const required = { tools, tool_choice: 'required', temperature: 1, max_tokens: 1200 };

function checkCall(call) {
  assert.match(call.id, /^call_/);
  assert.equal(call.type, 'function');
  const given = JSON.parse(call.function.arguments);
  if (call.function.name === 'clock') return assert.deepEqual(given, {});
  assert.equal(call.function.name, 'weather');
  assert.deepEqual(Object.keys(given), ['city', 'unit']);
  assert.ok(given.city.length <= 12 && ['c', 'f'].includes(given.unit), call.function.arguments);
}

for (const [name, Client] of clients) {
  describe(`tools, ${name}`, () => {
    const client = () => connect(Client, server).chat.completions;

    test('required calls are valid, whole and streamed', async () => {
      const answer = await client().create(ask(question, { ...required, parallel_tool_calls: false, n: 8 }));
      for (const { message, finish_reason } of answer.choices) {
        assert.equal(finish_reason, 'tool_calls');
        assert.equal(message.content, null);
        assert.equal(message.tool_calls.length, 1);
        message.tool_calls.forEach(checkCall);
      }
      checkUsage(answer.usage);
      const chunks = await chunksOf(await client().create(ask(question, { ...required, parallel_tool_calls: false, stream: true, stream_options: { include_usage: true } })));
      const fragments = chunks.flatMap((c) => c.choices).flatMap((c) => c.delta.tool_calls ?? []);
      assert.deepEqual(fragments.map((f) => [f.index, f.id !== undefined, f.type !== undefined, f.function.name !== undefined].join()),
        fragments.map((_, i) => (i === 0 ? '0,true,true,true' : '0,false,false,false')));
      checkCall({ ...fragments[0], function: { name: fragments[0].function.name, arguments: fragments.map((f) => f.function.arguments).join('') } });
      assert.equal(chunks.flatMap((c) => c.choices).map((c) => c.delta.content ?? '').join(''), '');
      assert.equal(chunks.at(-2).choices[0].finish_reason, 'tool_calls');
      checkUsage(chunks.at(-1).usage);
    });

    test('a named function is the one that is called', async () => {
      for (const { function: { name } } of tools) {
        const answer = await client().create(ask(question, { ...required, tool_choice: { type: 'function', function: { name } } }));
        assert.deepEqual(answer.choices[0].message.tool_calls.map((c) => c.function.name), [name]);
      }
      const allowed = { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'clock' } }] } };
      const answer = await client().create(ask(question, { ...required, tool_choice: allowed, parallel_tool_calls: false }));
      assert.equal(answer.choices[0].message.tool_calls[0].function.name, 'clock');
    });

    test('left to itself the model may just talk', async () => {
      const answer = await client().create(ask(question, { tools }));
      const { message, finish_reason } = answer.choices[0];
      assert.equal(finish_reason, message.tool_calls ? 'tool_calls' : 'stop');
      const none = await client().create(ask(question, { tools, tool_choice: 'none' }));
      assert.equal(none.choices[0].message.tool_calls, undefined);
      assert.equal(none.usage.prompt_tokens, (await client().create(ask(question))).usage.prompt_tokens);
    });

    test('stream helper', async () => {
      const stream = client().stream(ask(question, { ...required, parallel_tool_calls: false }));
      const calls = [];
      stream.on('tool_calls.function.arguments.done', (call) => calls.push(call));
      const answer = await stream.finalChatCompletion();
      answer.choices[0].message.tool_calls.forEach(checkCall);
      assert.equal(calls.length, 1);
    });

    test('runTools calls and goes on with the result', async () => {
      const asked = [];
      const runner = client().runTools({
        ...ask(question, { max_tokens: 200 }), tool_choice: { type: 'function', function: { name: 'weather' } },
        tools: [{ type: 'function', function: { ...weather.function, parse: JSON.parse, function: (given) => { asked.push(given); return 'It rains.'; } } }],
      }, { maxChatCompletions: 2 });
      await runner.done();
      assert.equal(asked.length, 1);
      assert.deepEqual(Object.keys(asked[0]), ['city', 'unit']);
      assert.ok(runner.messages.some((m) => m.role === 'tool' && m.content === 'It rains.'));
    });

    test('a strict function whose schema cannot be held', async () => {
      const bad = { type: 'function', function: { name: 'bad', strict: true, parameters: { type: 'object', properties: { a: { type: 'string', pattern: '(' } } } } };
      const err = await failureOf(client().create(ask(question, { tools: [weather, bad] })));
      assert.ok(err instanceof Client.BadRequestError);
      assert.deepEqual([err.param, err.code], ['tools[1].function.parameters', 'invalid_function_parameters']);
      assert.match(err.message, /function 'bad': at #\/properties\/a/);
      const loose = { ...bad, function: { ...bad.function, strict: false } };
      const answer = await client().create(ask(question, { ...required, tools: [loose], parallel_tool_calls: false, max_tokens: 400 }));
      assert.equal(answer.choices[0].message.tool_calls[0].function.name, 'bad');
    });
  });
}

const providers = [
  ['@ai-sdk/openai-compatible', () => createOpenAICompatible({ name: 'parley', baseURL: `${server.url}/v1`, apiKey: 'any', supportsStructuredOutputs: true })(mini)],
  ['@ai-sdk/openai, chat', () => createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'any' }).chat(mini)],
];

for (const [name, model] of providers) {
  describe(name, () => {
    const steady = { temperature: 1, maxOutputTokens: 300, maxRetries: 0 };

    test('generateObject', async () => {
      const schema = z.object({ name: z.string().max(10), lives: z.number().int().min(1).max(9) });
      const { object } = await generateObject({ model: model(), schema, prompt: 'Describe a cat.', ...steady });
      assert.ok(schema.safeParse(object).success, JSON.stringify(object));
    });

    const given = z.object({ city: z.string().max(12), unit: z.enum(['c', 'f']) });

    test('generateText with a tool', async () => {
      const asked = [];
      const lookup = tool({ description: 'The weather of a city.', inputSchema: given, execute: async (input) => { asked.push(input); return 'It rains.'; } });
      const { steps } = await generateText({ model: model(), prompt: question, tools: { lookup }, toolChoice: { type: 'tool', toolName: 'lookup' }, stopWhen: stepCountIs(1), ...steady });
      assert.equal(asked.length, 1);
      assert.ok(given.safeParse(asked[0]).success);
      assert.equal(steps[0].finishReason, 'tool-calls');
    });

    test('streamText with a tool', async () => {
      const lookup = tool({ description: 'The weather of a city.', inputSchema: given });
      const { fullStream } = streamText({ model: model(), prompt: question, tools: { lookup }, toolChoice: 'required', ...steady,
        providerOptions: { openai: { parallelToolCalls: false }, parley: { parallel_tool_calls: false } }, onError: ({ error }) => { throw error; } });
      const kinds = [];
      for await (const part of fullStream) {
        kinds.push(part.type);
        if (part.type === 'tool-call') assert.ok(given.safeParse(part.input).success, JSON.stringify(part));
      }
      assert.ok(kinds.indexOf('tool-input-start') < kinds.indexOf('tool-input-delta') && kinds.includes('tool-call'), kinds.join());
    });
  });
}
