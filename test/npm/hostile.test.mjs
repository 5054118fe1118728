import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import OpenAI from 'openai';
import { ask, chunksOf, connect, failureOf, serveParley, textOf } from './parley.mjs';

const server = serveParley();

/** What is promised is a tenth of a second, and the times are shown; but other tests may keep this machine busy. */
const refusalMsMax = 1_000;

const nested = (depth) => Array.from({ length: depth }).reduce((items) => ({ type: 'array', items }), {});
const many = (n, make) => Object.fromEntries(Array.from({ length: n }, (_, i) => make(i)));
const hostile = {
  'left recursion': { anyOf: [{ $ref: '#' }, { type: 'null' }] },
  'a value that is itself': { $ref: '#' },
  '2^63 items': { type: 'array', items: {}, maxItems: 2 ** 63 },
  'a thousand nested arrays': nested(1000),
  'no end': { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'], additionalProperties: false },
  'an exponential pattern': { type: 'string', pattern: '(a|b)*a(a|b){30}$' },
  'twenty thousand optional members': { type: 'object', properties: many(20_000, (i) => [`property${i}`, { type: 'string' }]), additionalProperties: false },
  'eighty hard objects': { anyOf: Array.from({ length: 80 }, (_, i) => ({ type: 'object', properties: { kind: { const: i }, text: { type: 'string', pattern: `^(\\\\p{L}{1,${20 + i}}){1,3}$` } }, required: ['kind', 'text'], additionalProperties: false })) },
  'a giant enumeration': { enum: Array.from({ length: 30_000 }, (_, i) => `a value that is number ${i}`) },
};

const format = (schema) => ({ response_format: { type: 'json_schema', json_schema: { name: 'hostile', strict: true, schema } } });

/** The shortest of three times to a refusal, in ms. Each schema is new to the server. */
async function refusalMs(schema) {
  let least = Infinity;
  for (let i = 0; i < 3; i += 1) {
    const body = ask('Hi', format({ ...schema, description: `number ${i}` }));
    const begun = performance.now();
    const err = await failureOf(connect(OpenAI, server).chat.completions.create(body));
    least = Math.min(least, performance.now() - begun);
    assert.deepEqual([err.status, err.type], [400, 'invalid_request_error'], err.message);
  }
  return least;
}

describe('hostile schemas', () => {
  for (const [name, schema] of Object.entries(hostile)) {
    test(`${name} is refused at once`, async (t) => {
      const ms = await refusalMs(schema);
      t.diagnostic(`${ms.toFixed(1)} ms`);
      assert.ok(ms < refusalMsMax, `${ms} ms`);
    });
  }

  test('nobody else is harmed', async () => {
    const client = connect(OpenAI, server);
    const question = ask('Tell me a long story about the sea.', { max_tokens: 60, seed: 7, stream: true });
    const alone = textOf(await chunksOf(await client.chat.completions.create(question)));
    const attack = Array.from({ length: 20 }, (_, i) => failureOf(client.chat.completions.create(ask(`Hi ${i}`, format(Object.values(hostile)[i % Object.keys(hostile).length])))));
    const [together, ...refusals] = await Promise.all([client.chat.completions.create(question).then(chunksOf).then((chunks) => textOf(chunks)), ...attack]);
    assert.equal(together, alone);
    for (const err of refusals) assert.equal(err.status, 400);
  });

  test('eighty ordinary large objects to choose from are taken', async () => {
    const kinds = [{ type: 'string', maxLength: 5 }, { type: 'integer', minimum: 0, maximum: 99 }, { enum: ['always', 'never'] }];
    const one = (n) => {
      const properties = { kind: { const: `object_${n}` }, ...many(24, (i) => [`${String.fromCharCode(97 + i)}_argument`, kinds[i % 3]]) };
      return { type: 'object', properties, required: ['kind', 'a_argument'], additionalProperties: false };
    };
    const schema = { anyOf: Array.from({ length: 80 }, (_, n) => one(n)) };
    const answer = await connect(OpenAI, server).chat.completions.create(ask('Hi', { ...format(schema), temperature: 1, max_tokens: 900 }));
    assert.match(JSON.parse(answer.choices[0].message.content).kind, /^object_\d+$/);
  });
});
