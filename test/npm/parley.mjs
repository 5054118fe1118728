// What the tests share: a server of their own, clients for it, and small
// readers of what it says.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import OpenAI from 'openai';
import OpenAI6 from 'openai6';
import { asOwner, serveParley as serve } from '../server.mjs';
import { prove } from './proof.mjs';

/** A server for the calling test file, every answer of which is held to the published description. */
export function serveParley(...flags) {
  const server = serve(...flags);
  prove();
  return server;
}

/** Both generations of the official client that people have installed. */
export const clients = [['openai 7', OpenAI], ['openai 6', OpenAI6]];

/** The small model answers fastest; the large one is slow enough to interrupt. */
export const mini = 'polly-mini';
export const polly = 'polly';

/** A client that never tries twice, so that no failure is hidden. */
export function connect(Client, server) {
  return new Client({ baseURL: `${server.url}/v1`, apiKey: server.token || 'any', maxRetries: 0 });
}

/** Sends a body as it is, past every check of a client library. */
export function post(server, path, body, headers = { 'content-type': 'application/json' }) {
  return fetch(server.url + path, { method: 'POST', headers, body });
}

/** The fields of a request for one user turn whose answer is always the same. */
export function ask(content, more = {}) {
  return { model: mini, messages: [{ role: 'user', content }], temperature: 0, max_tokens: 40, ...more };
}

/** Reads all chunks of a stream. */
export async function chunksOf(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

/** Joins the text of one choice over the chunks of a chat stream. */
export function textOf(chunks, index = 0) {
  return chunks.flatMap((c) => c.choices).filter((c) => c.index === index).map((c) => c.delta.content ?? '').join('');
}

/** The error that a promise is rejected with. */
export async function failureOf(promise) {
  try {
    await promise;
  } catch (err) {
    return err;
  }
  assert.fail('the request was answered; expected an error');
}

/** The value of one metric, by its name with labels as /metrics writes it. */
export async function metric(server, name) {
  const text = await (await fetch(`${server.url}/metrics`, { headers: asOwner(server) })).text();
  const line = text.split('\n').find((l) => l.startsWith(`${name} `));
  return line === undefined ? 0 : Number(line.slice(name.length + 1));
}

/** Waits until a metric has a value; fails when it takes longer than ms. */
export async function metricBecomes(server, name, want, ms = 2_000) {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = await metric(server, name);
    if (value === want) return;
    assert.ok(performance.now() < deadline, `${name} is ${value} after ${ms} ms; expected ${want}`);
    await pause(10);
  }
}

/** The text of every token of the built-in models, as the server spells it. */
export async function vocabularyOf(server) {
  const texts = [];
  for (let first = 0; first < 8192; first += 1024) {
    const prompt = Array.from({ length: 1024 }, (_, i) => first + i);
    const listed = await connect(OpenAI, server).completions.create({ model: mini, prompt, echo: true, max_tokens: 0, logprobs: 0 });
    texts.push(...listed.choices[0].logprobs.tokens);
  }
  return texts;
}

/** Checks a usage: whole numbers that add up, with both details present. */
export function checkUsage(usage) {
  const numbers = [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens,
    usage.prompt_tokens_details.cached_tokens, usage.completion_tokens_details.reasoning_tokens];
  for (const n of numbers) assert.ok(Number.isInteger(n) && n >= 0, JSON.stringify(usage));
  assert.ok(usage.prompt_tokens > 0);
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  assert.ok(usage.prompt_tokens_details.cached_tokens <= usage.prompt_tokens);
}
