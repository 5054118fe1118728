// The description of the API, checked by a validator that is not ours.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import Ajv2020 from 'ajv/dist/2020.js';
import { serveParley as serve } from '../server.mjs';

const server = serve();
const described = async () => (await fetch(`${server.url}/openapi.json`)).json();

test('the description is valid OpenAPI 3.1', async () => {
  const validator = new Validator();
  const result = await validator.validate(await described());
  assert.equal(result.valid, true, JSON.stringify(result.errors, null, 1));
  assert.equal(validator.version, '3.1');
});

test('answers are as described', async () => {
  const api = await described();
  const ajv = new Ajv2020({ strict: false });
  ajv.addSchema({ $id: 'api', components: api.components });
  const hello = [{ role: 'user', content: 'Hello!' }];
  for (const [method, path, body] of [
    ['post', '/v1/chat/completions', { model: 'polly-mini', messages: hello, max_tokens: 4 }],
    ['post', '/v1/messages', { model: 'polly-mini', messages: hello, max_tokens: 4 }],
    ['post', '/v1/embeddings', { model: 'polly-mini', input: 'a' }],
    ['post', '/api/chat', { model: 'polly-mini', messages: hello, stream: false, options: { num_predict: 4 } }],
    ['post', '/api/chat', { model: 'nobody', messages: hello }],
    ['post', '/v1/completions', { model: 'nobody', prompt: 'a' }],
    ['get', '/api/tags'], ['get', '/v1/models'], ['get', '/props'], ['get', '/version'],
    ['post', '/tokenize', { model: 'polly-mini', prompt: 'Hi' }],
    ['post', '/v1/score', { model: 'polly-mini', text_1: 'a', text_2: 'b' }],
    ['post', '/infill', { model: 'polly-mini', input_prefix: 'a', input_suffix: '', n_predict: 2 }],
  ]) {
    const answer = await fetch(server.url + path, { method, headers: { 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
    const { responses } = api.paths[path][method];
    const { schema } = (responses[answer.status] ?? responses.default).content['application/json'];
    const text = JSON.stringify(schema).replaceAll('"#/', '"api#/');
    const check = ajv.compile(JSON.parse(text));
    const got = await answer.json();
    assert.ok(check(got), `${path}: ${ajv.errorsText(check.errors)}: ${JSON.stringify(got)}`);
  }
});
