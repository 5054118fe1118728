import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Ajv from 'ajv/dist/2020.js';
import { zodResponseFormat } from 'openai/helpers/zod';
import { zodResponseFormat as zodResponseFormat6 } from 'openai6/helpers/zod';
import { z } from 'zod';
import { ask, chunksOf, clients, connect, failureOf, metric, mini, polly, serveParley, textOf } from './parley.mjs';

const server = serveParley();
const [, Client] = clients[0];
const object = (properties, more = {}) => ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false, ...more });
const word = { type: 'string', maxLength: 12 };

/** Schemas as people and their libraries write them, each bounded so that every answer ends. */
const schemas = {
  'nested objects': object({ cat: object({ name: word, home: object({ city: word, number: { type: 'integer', minimum: 1, maximum: 99 } }) }), alive: { type: 'boolean' } }),
  'arrays with bounds': object({ three: { type: 'array', items: word, minItems: 3, maxItems: 3 }, few: { type: 'array', items: { type: 'integer', minimum: 0, maximum: 9 }, maxItems: 4 } }),
  'enums and constants': object({ colour: { enum: ['black', 'white', 'ginger', null, 7] }, kind: { const: 'cat' } }),
  'any of': object({ pet: { anyOf: [object({ type: { const: 'cat' }, lives: { type: 'integer', minimum: 1, maximum: 9 } }), object({ type: { const: 'dog' }, name: word }), { type: 'null' }] } }),
  'recursion': { $ref: '#/$defs/node', $defs: { node: object({ value: { type: 'integer', minimum: 0, maximum: 9 }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } }) } },
  'a whole that holds itself': { ...object({ name: word, friends: { type: 'array', items: { $ref: '#' }, maxItems: 1 } }), required: ['name'] },
  'patterns': object({ id: { type: 'string', pattern: '^[a-z]{2,4}-[0-9]{3}$' }, time: { type: 'string', pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$' } }),
  'number ranges': object({ age: { type: 'integer', minimum: -3, exclusiveMaximum: 121 }, share: { type: 'number', exclusiveMinimum: 0, maximum: 1 }, even: { type: 'integer', multipleOf: 2, minimum: 0, maximum: 1000 } }),
  'optional members': { type: 'object', properties: { a: word, b: { type: ['integer', 'null'], minimum: 0, maximum: 50 }, c: { type: 'boolean' } }, required: ['b'], additionalProperties: false },
  'all of': { allOf: [{ type: 'object', properties: { n: { type: 'integer', minimum: 3 } }, required: ['n'] }, { properties: { n: { maximum: 40 } }, additionalProperties: false }] },
  'tuples': { type: 'array', prefixItems: [word, { type: 'integer', minimum: 0, maximum: 9 }], items: false, minItems: 2 },
};

const question = 'Tell me about your cat as JSON.';
const format = (schema, strict = false) => ({ type: 'json_schema', json_schema: { name: 'answer', strict, schema } });

/** How many answers to one schema are wanted, and in how many requests. `make clients-all` wants a hundred. */
const answers = Number(process.env.PARLEY_ANSWERS || 32);
const requests = 4;

describe('json_schema at temperature 1', { concurrency: 2 }, () => {
  for (const [name, schema] of Object.entries(schemas)) {
    test(name, async () => {
      const valid = new Ajv({ strict: false }).compile(schema);
      const body = { ...ask(question, { temperature: 1, max_tokens: 1900, n: answers / requests }), response_format: format(schema) };
      const client = connect(Client, server);
      const asked = Array.from({ length: requests }, async (_, i) => {
        if (i === 0) {
          const chunks = await chunksOf(await client.chat.completions.create({ ...body, stream: true }));
          return Array.from({ length: body.n }, (_, index) => textOf(chunks, index));
        }
        return (await client.chat.completions.create({ ...body, seed: i })).choices.map((c) => c.message.content);
      });
      const texts = (await Promise.all(asked)).flat();
      assert.equal(texts.length, answers);
      const bad = texts.filter((text) => { try { return !valid(JSON.parse(text)); } catch { return true; } });
      assert.deepEqual(bad.slice(0, 3), [], `${bad.length} of ${answers} answers are not valid`);
    });
  }
});

describe('parley.finish_json', () => {
  const schema = object({ title: { type: 'string' }, summary: { type: 'string' }, tags: { type: 'array', items: { type: 'string' } }, year: { type: 'integer' } });
  const valid = new Ajv({ strict: false }).compile(schema);
  const tools = [{ type: 'function', function: { name: 'write', parameters: object({ path: { type: 'string' }, text: { type: 'string' } }) } }];
  const few = (seed, most, finish) => ({ ...ask('Write a long note about the sea.', { temperature: 1, seed, max_tokens: most }), ...(finish ? { parley: { finish_json: true } } : {}) });
  const client = () => connect(Client, server).chat.completions;
  const parses = (text) => { try { return JSON.parse(text); } catch { return undefined; } };

  test('an answer is complete however few tokens it has', async () => {
    let cut = 0;
    for (const finish of [false, true]) {
      for (const most of [32, 48, 90]) {
        for (let seed = 0; seed < 5; seed++) {
          const { choices: [choice] } = await client().create({ ...few(seed, most, finish), response_format: format(schema, true) });
          const good = valid(parses(choice.message.content));
          if (!good) cut++;
          assert.ok(good && choice.finish_reason === 'stop' || !finish, `${most} tokens, ${choice.finish_reason}: ${choice.message.content}`);
        }
      }
    }
    assert.ok(cut > 0, 'no answer was cut off without it: nothing was tested');
  });

  test('so is a call, streamed and whole', async () => {
    for (let seed = 0; seed < 5; seed++) {
      const body = { ...few(seed, 120, true), tools, tool_choice: 'required', parallel_tool_calls: false };
      const { choices: [choice] } = await client().create(body);
      const chunks = await chunksOf(await client().create({ ...body, stream: true }));
      const streamed = chunks.flatMap((c) => c.choices[0]?.delta.tool_calls ?? []).map((c) => c.function?.arguments ?? '').join('');
      assert.equal(choice.finish_reason, 'tool_calls', JSON.stringify(choice));
      for (const text of [choice.message.tool_calls[0].function.arguments, streamed]) {
        assert.deepEqual(Object.keys(parses(text) ?? {}), ['path', 'text'], text);
      }
    }
  });
});

for (const [name, Each, zodFormat] of [[...clients[0], zodResponseFormat], [...clients[1], zodResponseFormat6]]) {
  describe(`structured output, ${name}`, () => {
    const client = () => connect(Each, server).chat.completions;
    const cat = z.object({ name: z.string().max(10), lives: z.number().int().min(1).max(9), colour: z.enum(['black', 'white']) });

    test('parse', async () => {
      const answer = await client().parse({ ...ask(question, { max_tokens: 200, temperature: 1 }), response_format: zodFormat(cat, 'cat') });
      const { parsed, refusal } = answer.choices[0].message;
      assert.ok(cat.safeParse(parsed).success, JSON.stringify(parsed));
      assert.equal(refusal, null);
      assert.equal(answer.choices[0].finish_reason, 'stop');
    });

    test('parse of an answer that was cut off', async () => {
      const err = await failureOf(client().parse({ ...ask(question, { max_tokens: 4 }), response_format: zodFormat(cat, 'cat') }));
      assert.equal(err.constructor.name, 'LengthFinishReasonError');
    });

    test('stream helper', async () => {
      const stream = client().stream({ ...ask(question, { max_tokens: 200 }), response_format: zodFormat(cat, 'cat') });
      const answer = await stream.finalChatCompletion();
      assert.ok(cat.safeParse(answer.choices[0].message.parsed).success, JSON.stringify(answer.choices[0]));
    });

    test('json_object', async () => {
      const answer = await client().create({ ...ask(question, { max_tokens: 300, temperature: 1, n: 8 }), response_format: { type: 'json_object' } });
      for (const { message, finish_reason } of answer.choices) {
        assert.equal(message.content[0], '{');
        if (finish_reason === 'stop') assert.equal(typeof JSON.parse(message.content), 'object');
      }
    });

    test('a schema that cannot be held', async () => {
      const before = await metric(server, 'parley_constrained_requests_total{kind="json_schema"}');
      const err = await failureOf(client().create({ ...ask('Hi'), response_format: format(object({ a: { type: 'string', pattern: '(' } }), true) }));
      assert.ok(err instanceof Each.BadRequestError);
      assert.deepEqual([err.status, err.param, err.code], [400, 'response_format.json_schema.schema', 'invalid_json_schema']);
      assert.match(err.message, /#\/properties\/a/);
      assert.equal(await metric(server, 'parley_constrained_requests_total{kind="json_schema"}'), before + 1);
    });
  });
}

test('guided decoding in the words of other servers', async () => {
  const client = connect(Client, server);
  const text = async (more) => (await client.chat.completions.create(ask('Is the sky blue?', { temperature: 1, ...more }))).choices[0].message.content;
  assert.match(await text({ guided_choice: ['yes', 'no'] }), /^(yes|no)$/);
  assert.match(await text({ guided_regex: '[A-C]{3}-[0-9]' }), /^[A-C]{3}-[0-9]$/);
  assert.equal(typeof JSON.parse(await text({ guided_json: object({ n: { type: 'integer', minimum: 0, maximum: 5 } }) })).n, 'number');
  assert.match(await text({ structured_outputs: { choice: ['one', 'two'] } }), /^(one|two)$/);
  const plain = await client.completions.create({ model: mini, prompt: 'The answer is', guided_regex: ' (yes|no)' });
  assert.match(plain.choices[0].text, /^ (yes|no)$/);
});

/** Schemas that are made to cost. */
const hostile = {
  'counted counts': object({ a: { type: 'string', pattern: `^${'('.repeat(8)}a{1,90}${'){1,90}'.repeat(8)}$` } }),
  'many alternatives': object({ a: { anyOf: Array.from({ length: 3000 }, (_, i) => ({ type: 'string', pattern: `^.*x.{${i % 200}}$` })) } }),
  'doubling': { $ref: '#/$defs/d0', $defs: Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`d${i}`, i === 29 ? { type: 'string' } : { allOf: [{ anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { type: 'null' }] }, { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { type: 'integer' }] }] }])) },
  'itself': { $ref: '#' },
  'large': object(Object.fromEntries(Array.from({ length: 9000 }, (_, i) => [`member_number_${i}`, word]))),
};

test('hostile schemas are refused while another stream goes on', async () => {
  const client = connect(Client, server);
  const stream = await client.chat.completions.create({ ...ask('Tell me a story.', { model: polly, max_tokens: 600, ignore_eos: true, stream: true }), stream_options: { include_usage: true } });
  const events = [];
  let refused;
  let tokens = 0;
  for await (const chunk of stream) {
    events.push('chunk');
    tokens = chunk.usage?.completion_tokens ?? tokens;
    refused ??= Promise.all(Object.entries(hostile).map(async ([name, schema]) => {
      const err = await failureOf(client.chat.completions.create({ ...ask('Hi'), response_format: format(schema, true) }));
      events.push(name);
      assert.deepEqual([err.status, err.code], [400, 'invalid_json_schema'], `${name}: ${err.message}`);
    }));
  }
  events.push('end');
  await refused;
  assert.equal(tokens, 600);
  assert.equal(events.at(-1), 'end', `the stream ended before a schema was refused: ${events.slice(-8)}`);
});
