import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { failureOf, mini, serveParley } from './parley.mjs';

const server = serveParley();
const client = () => new Anthropic({ baseURL: server.url, apiKey: 'any', maxRetries: 0 });
const ask = (content, more = {}) => ({ model: mini, max_tokens: 40, temperature: 0, messages: [{ role: 'user', content }], ...more });
const weather = {
  name: 'weather', description: 'The weather in a city.',
  input_schema: { type: 'object', properties: { city: { type: 'string', enum: ['Rome', 'Oslo'] } }, required: ['city'], additionalProperties: false },
};
const mustCall = { tools: [weather], tool_choice: { type: 'tool', name: 'weather' }, max_tokens: 300 };

describe('messages, anthropic', () => {
  test('a question is answered', async () => {
    const answer = await client().messages.create(ask('Hello!', { system: 'Be brief.', metadata: { user_id: 'u' } }));
    assert.match(answer.id, /^msg_/);
    assert.match(answer._request_id, /^req_/);
    assert.deepEqual([answer.type, answer.role, answer.model], ['message', 'assistant', mini]);
    assert.ok(answer.content[0].text.length > 0);
    assert.ok(['end_turn', 'max_tokens'].includes(answer.stop_reason));
    assert.ok(answer.usage.output_tokens > 0);
  });

  test('a stream is the same answer in pieces', async () => {
    const whole = await client().messages.create(ask('Tell me of the moon.'));
    const stream = client().messages.stream(ask('Tell me of the moon.'));
    let text = '';
    stream.on('text', (piece) => { text += piece; });
    const final = await stream.finalMessage();
    assert.deepEqual(final.content, whole.content);
    assert.equal(text, whole.content[0].text);
    assert.equal(final.stop_reason, whole.stop_reason);
    const sum = (u) => u.input_tokens + u.cache_read_input_tokens + u.cache_creation_input_tokens;
    assert.equal(sum(final.usage), sum(whole.usage));
    assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
    const raw = [];
    for await (const event of await client().messages.create({ ...ask('Tell me of the moon.'), stream: true })) raw.push(event.type);
    assert.equal(raw[0], 'message_start');
    assert.deepEqual(raw.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
  });

  test('stop sequences and limits say so', async () => {
    const full = (await client().messages.create(ask('Tell me of the moon.'))).content[0].text;
    const word = full.slice(5, 9);
    const stopped = await client().messages.create(ask('Tell me of the moon.', { stop_sequences: ['\u0000', word] }));
    assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ['stop_sequence', word]);
    assert.equal(stopped.content.map((b) => b.text).join(''), full.slice(0, full.indexOf(word)));
    const short = await client().messages.create(ask('Tell me of the moon.', { max_tokens: 2 }));
    assert.equal(short.stop_reason, 'max_tokens');
  });

  test('a tool is called, whole and streamed, and its result is read', async () => {
    const answer = await client().messages.create(ask('How is the weather in Rome?', mustCall));
    assert.equal(answer.stop_reason, 'tool_use');
    const call = answer.content.find((b) => b.type === 'tool_use');
    assert.match(call.id, /^toolu_/);
    assert.equal(call.name, 'weather');
    assert.ok(['Rome', 'Oslo'].includes(call.input.city), JSON.stringify(call));
    const stream = client().messages.stream(ask('How is the weather in Rome?', mustCall));
    const partial = [];
    stream.on('inputJson', (piece) => partial.push(piece));
    const final = await stream.finalMessage();
    assert.deepEqual(final.content.find((b) => b.type === 'tool_use').input, call.input);
    assert.deepEqual(JSON.parse(partial.join('')), call.input);
    const next = await client().messages.create({
      ...ask(''), tools: [weather], tool_choice: { type: 'none' },
      messages: [{ role: 'user', content: 'How is the weather in Rome?' }, { role: 'assistant', content: answer.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'sunny' }] }],
    });
    assert.ok(['end_turn', 'max_tokens'].includes(next.stop_reason));
  });

  test('what is marked is kept, and read the next time', async () => {
    const system = [{ type: 'text', text: 'You know many stories of foxes. '.repeat(20), cache_control: { type: 'ephemeral' } }];
    const first = await client().messages.create(ask('Hello!', { system }));
    const second = await client().messages.create(ask('Good day!', { system }));
    assert.ok(first.usage.cache_creation_input_tokens > 100, JSON.stringify(first.usage));
    assert.ok(second.usage.cache_read_input_tokens >= 100, JSON.stringify(second.usage));
    assert.ok(second.usage.cache_creation_input_tokens < 32, JSON.stringify(second.usage));
  });

  test('tokens are counted', async () => {
    const counted = await client().messages.countTokens({ model: mini, messages: [{ role: 'user', content: 'A new question of mine' }] });
    const { usage } = await client().messages.create(ask('A new question of mine'));
    assert.equal(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens);
  });

  test('errors are those of the library', async () => {
    const wrong = await failureOf(client().messages.create(ask('x', { model: 'nope' })));
    assert.ok(wrong instanceof Anthropic.NotFoundError);
    assert.equal(wrong.error.error.type, 'not_found_error');
    assert.match(wrong.requestID, /^req_/);
    const image = await failureOf(client().messages.create(ask([{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }])));
    assert.ok(image instanceof Anthropic.BadRequestError);
    assert.match(image.message, /text only/);
  });

  test('the events of a stream, by name and in order', async () => {
    const { stop_reason } = await client().messages.create(ask('Tell me of the moon.'));
    const events = [];
    for await (const event of await client().messages.create({ ...ask('Tell me of the moon.'), stream: true })) events.push(event);
    const start = events[0].message;
    assert.deepEqual([start.content, start.stop_reason, start.role], [[], null, 'assistant']);
    assert.ok(start.usage.input_tokens + start.usage.cache_read_input_tokens > 0);
    const order = events.map((e) => e.type).filter((type, i, all) => type !== 'ping' && type !== all[i - 1]);
    assert.deepEqual(order, ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
    const end = events.find((e) => e.type === 'message_delta');
    assert.equal(end.delta.stop_reason, stop_reason);
    assert.ok(end.usage.output_tokens > 0);
  });

  test('system in blocks is the same as in one string', async () => {
    const blocks = ['Be brief.', 'Be kind.'].map((text) => ({ type: 'text', text }));
    const counted = await client().messages.countTokens({ model: mini, system: blocks, messages: [{ role: 'user', content: 'Hi' }] });
    const answer = await client().messages.create(ask('Hi', { system: blocks }));
    assert.equal(counted.input_tokens, answer.usage.input_tokens + answer.usage.cache_read_input_tokens + answer.usage.cache_creation_input_tokens);
    const parts = await client().messages.create(ask([{ type: 'text', text: 'Tell me ' }, { type: 'text', text: 'of the moon.' }]));
    assert.ok(parts.content[0].text.length > 0);
  });

  test('the choice of tools: any, none, and one at a time', async () => {
    const clock = { name: 'clock', input_schema: { type: 'object', properties: {} } };
    const tools = [weather, clock];
    const any = await client().messages.create(ask('How is the weather in Rome?', { tools, tool_choice: { type: 'any', disable_parallel_tool_use: true }, max_tokens: 300 }));
    assert.equal(any.content.filter((b) => b.type === 'tool_use').length, 1);
    const none = await client().messages.create(ask('How is the weather in Rome?', { tools, tool_choice: { type: 'none' } }));
    assert.ok(none.content.every((b) => b.type === 'text'));
    const auto = await client().messages.create(ask('Hello!', { tools }));
    assert.ok(['end_turn', 'max_tokens', 'tool_use'].includes(auto.stop_reason));
    const failed = [
      { role: 'user', content: 'How is the weather in Rome?' }, { role: 'assistant', content: any.content },
      { role: 'user', content: any.content.filter((b) => b.type === 'tool_use').map(({ id }) => ({ type: 'tool_result', tool_use_id: id, is_error: true, content: [{ type: 'text', text: 'no such city' }] })) },
    ];
    const next = await client().messages.create({ ...ask(''), tools, messages: failed });
    assert.equal(next.role, 'assistant');
  });

  test('an answer that was begun is continued', async () => {
    const begun = [{ role: 'user', content: 'Count to five.' }, { role: 'assistant', content: 'One, two,' }];
    const answer = await client().messages.create({ ...ask(''), messages: begun });
    assert.ok(!answer.content.map((b) => b.text).join('').startsWith('One, two,'));
  });

  test('what is wrong is told in the words of the library', async () => {
    for (const [body, word] of [
      [{ max_tokens: 0 }, /max_tokens/], [{ max_tokens: undefined }, /max_tokens/], [{ messages: [] }, /messages/],
      [{ messages: [{ role: 'nobody', content: 'x' }] }, /role/], [{ temperature: 9 }, /temperature/],
      [{ tools: [{ name: 'x' }] }, /input_schema|tools/], [{ tools: [weather], tool_choice: { type: 'tool', name: 'nobody' } }, /tool_choice|nobody/],
    ]) {
      const err = await failureOf(client().messages.create(ask('x', body)));
      assert.ok(err instanceof Anthropic.BadRequestError, JSON.stringify([body, err.message]));
      assert.deepEqual([err.error.type, err.error.error.type], ['error', 'invalid_request_error']);
      assert.match(err.error.error.message, word);
    }
    const long = await failureOf(client().messages.create(ask('fox '.repeat(4000))));
    assert.ok(long instanceof Anthropic.BadRequestError);
  });
});
