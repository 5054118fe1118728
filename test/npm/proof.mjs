// Holds every answer that a client library gets to OpenAI's published
// description, which may lie beside the repository: whole answers, each event of
// a stream, and errors. A file that got an answer of another shape fails after its
// last test.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';

const description = fileURLToPath(new URL('../../../shared/data/openai-openapi.json', import.meta.url));
const wrong = [];
const counts = { whole: 0, events: 0, errors: 0 };

if (existsSync(description)) {
  const check = checkerOf(JSON.parse(readFileSync(description, 'utf8')));
  const plain = globalThis.fetch;
  globalThis.fetch = async (url, options) => {
    const response = await plain(url, options);
    return watched(response, check, (options?.method ?? 'GET').toUpperCase(), new URL(url?.url ?? url));
  };
}

/** Has the calling test file fail, after what else it does at its end, if an answer was wrong. */
export function prove() {
  after(() => {
    console.log(`# held to the published description: ${counts.whole} answers, ${counts.events} events, ${counts.errors} errors`);
    assert.deepEqual(wrong, []);
  });
}

/** The same answer, whose body is checked as it passes. */
function watched(response, check, method, url) {
  const rules = check.rulesOf(method, url.pathname);
  const type = response.headers.get('content-type') ?? '';
  if (!rules || !response.body || !/^(application\/json|text\/event-stream)/.test(type)) return response;
  const decoder = new TextDecoder();
  let text = '';
  const tap = new TransformStream({
    transform(bytes, out) {
      text += decoder.decode(bytes, { stream: true });
      out.enqueue(bytes);
    },
    flush() {
      const problem = type.startsWith('text/event-stream') ? eventsProblem(rules, text) : wholeProblem(rules, response, text);
      if (problem) wrong.push(`${method} ${url.pathname} ${response.status}: ${problem}`);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(tap), { status, statusText, headers });
}

function wholeProblem(rules, response, text) {
  counts[response.ok ? 'whole' : 'errors']++;
  return (response.ok ? rules.whole : rules.error)?.(completed(JSON.parse(text)));
}

/**
 * Something in the place of what is right and not in the description: the null of
 * an echoed text's first token, and embeddings in base64.
 */
function completed(answer) {
  for (const { logprobs } of answer.choices ?? []) {
    if (logprobs?.token_logprobs?.[0] === null) logprobs.token_logprobs[0] = 0;
    if (logprobs?.top_logprobs?.[0] === null) logprobs.top_logprobs[0] = {};
  }
  for (const item of Array.isArray(answer.data) ? answer.data : []) {
    if (item.object === 'embedding' && typeof item.embedding === 'string') item.embedding = [];
  }
  return answer;
}

function eventsProblem(rules, text) {
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: ') || line === 'data: [DONE]') continue;
    const event = JSON.parse(line.slice('data: '.length));
    counts.events++;
    const problem = (event.error && !event.type ? rules.error : rules.event)?.(event);
    if (problem) return problem;
  }
  return null;
}

/** Finds the rules of a route: functions that say what is wrong with a value. */
function checkerOf(doc) {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: false, logger: false });
  ajv.addSchema({ $id: 'doc', components: lenient(doc.components) });
  const known = new Map();
  const rule = (schema) => {
    if (!schema) return null;
    const validate = ajv.compile(rooted(lenient(schema)));
    return (value) => (validate(value) ? null : `${ajv.errorsText(validate.errors)} in ${JSON.stringify(value).slice(0, 400)}`);
  };
  const error = rule({ $ref: '#/components/schemas/ErrorResponse' });
  const rulesOf = (method, path) => {
    const name = nameOf(doc.paths, method, path.replace(/^\/v1/, '').replace(/^\/models\/.+/, '/models/x'));
    if (!name) return null;
    if (!known.has(method + name)) {
      const content = doc.paths[name][method.toLowerCase()].responses['200']?.content ?? {};
      known.set(method + name, { whole: rule(content['application/json']?.schema), event: rule(content['text/event-stream']?.schema), error });
    }
    return known.get(method + name);
  };
  return { rulesOf };
}

/** The path of the description that a path is one of; without braces goes first. */
function nameOf(paths, method, path) {
  const of = (name) => paths[name]?.[method.toLowerCase()];
  if (of(path)) return path;
  return Object.keys(paths).find((name) => !name.includes('?') && of(name) && new RegExp(`^${name.replace(/[+.]/g, '\\$&').replace(/\{[^}]+\}/g, '[^/]+')}$`).test(path));
}

/** References that are found from any schema. */
function rooted(schema) {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components/', '"doc#/components/'));
}

/**
 * The description in words that the validator has: null may stand for what is
 * nullable, and of several alternatives one or more may hold, because many of
 * those that are published overlap.
 */
function lenient(schema) {
  if (Array.isArray(schema)) return schema.map(lenient);
  if (schema === null || typeof schema !== 'object') return schema;
  const { nullable, oneOf, discriminator, ...rest } = schema;
  const kept = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, lenient(value)]));
  if (Array.isArray(oneOf)) kept.anyOf = lenient(oneOf);
  else if (oneOf !== undefined) kept.oneOf = lenient(oneOf);
  if (discriminator !== undefined && typeof discriminator !== 'object') kept.discriminator = discriminator;
  if (nullable === true) return { anyOf: [kept, { type: 'null' }] };
  return nullable === undefined || typeof nullable === 'boolean' ? kept : { ...kept, nullable: lenient(nullable) };
}
