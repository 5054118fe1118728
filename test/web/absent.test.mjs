// Workers that are configured and cannot join are named with the reason wherever an operator looks, requests fail in
// seconds and say why, and one error of a worker is told in its words and costs nobody else an answer.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { answered, asOwner, eventually, inEveryLook, openPage, openPages, say, shot, wantFit } from './pages.mjs';

/** An engine of another maker. It lists the models it is told to, or rejects the key. */
async function startEngine(state) {
  const engine = createServer(async (request, response) => {
    const reply = (status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (state.locked) return reply(401, { error: { message: 'wrong key', type: 'invalid_request_error' } });
    if (request.url.endsWith('/models')) return reply(200, { object: 'list', data: [{ id: state.model, object: 'model', owned_by: 'test' }] });
    if (!request.url.endsWith('/chat/completions')) return reply(404, {});
    const body = JSON.parse(Buffer.concat(await request.toArray()).toString());
    if (/explode/.test(JSON.stringify(body.messages.at(-1)))) return reply(500, { error: { message: 'the tensor broke', type: 'server_error' } });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const [delta, finish_reason] of [[{ content: 'Well, yes.' }, null], [{}, 'stop']]) {
      response.write(`data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 1, model: state.model, choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
    }
    response.end('data: [DONE]\n\n');
  });
  engine.listen(0, '127.0.0.1');
  await once(engine, 'listening');
  after(() => engine.close());
  return { name: `127.0.0.1:${engine.address().port}`, flags: ['--worker', `openai-chat=http://127.0.0.1:${engine.address().port}`], state };
}

const other = await startEngine({ model: 'another' });
const locked = await startEngine({ model: 'polly', locked: true });
const gone = '127.0.0.1:9';
const rig = openPages('--model', 'polly', '--worker-wait', '1s', '--titles', 'off', ...other.flags, ...locked.flags, '--worker', `http://${gone}`);

const card = (page, name, state) => page.locator(`[data-worker="${name}"][data-state="${state}"]`);
const openFleet = (options) => openPage(rig, options, '/admin#fleet', '[data-worker]');
const reasons = [
  [other.name, /serves another, which is not a model of this server/],
  [locked.name, /wrong key/],
  [gone, /connection refused/],
];

inEveryLook('workers that cannot join are listed as absent, with the reason', async (options, name) => {
  const page = await openFleet(options);
  for (const [worker, why] of reasons) {
    await card(page, worker, 'absent').waitFor();
    await page.locator(`[data-worker="${worker}"] .trouble`, { hasText: why }).waitFor();
  }
  await eventually(async () => assert.match(await page.locator('.verdict h1').innerText(), /No worker has joined, so no request can be served/));
  await wantFit(page, `absent workers, ${name}`);
  await shot(page, `admin-fleet-absent-${name}`);
  await page.closeClean();
});

inEveryLook('without a worker a chat fails within seconds, and says why', async (options, name) => {
  const page = await openPage(rig, options);
  await say(page, 'Is there anybody?');
  await page.getByText(/No worker for the model 'polly' can take your request now \(pool 'default': no worker has joined, 3 absent\)/).first().waitFor();
  assert.equal(await page.getByText(/busy/i).count(), 0);
  await wantFit(page, `no worker, ${name}`);
  await shot(page, `chat-no-worker-${name}`);
  await page.closeClean();
});

test('readiness and the command name them, too', async () => {
  const ready = await fetch(`${rig.server.url}/readyz`);
  assert.equal(ready.status, 503);
  const { stdout } = await promisify(execFile)(process.env.PARLEY_BIN, ['fleet', 'status', '--url', rig.server.url], { env: { ...process.env, PARLEY_API_KEY: rig.server.token } });
  for (const text of [await ready.text(), stdout]) {
    for (const [worker, why] of reasons) {
      assert.ok(text.includes(worker), text);
      assert.match(text, why);
    }
  }
});

test('a worker that serves the model after all joins, and the others stay named', async () => {
  other.state.model = 'polly';
  const page = await openFleet({});
  await card(page, other.name, 'up').waitFor();
  await card(page, locked.name, 'absent').waitFor();
  await page.locator('.verdict h1', { hasText: '2 of 3 workers cannot join' }).waitFor();
  const ready = await fetch(`${rig.server.url}/readyz`, { headers: asOwner(rig.server) });
  assert.equal(ready.status, 200);
  const { status, reason } = await ready.json();
  assert.equal(status, 'degraded');
  assert.match(reason, new RegExp(`Workers that cannot join: .*${locked.name} \\(.*wrong key`));
  await page.closeClean();
});

inEveryLook('an error of a worker is told in its words, and the worker stays up for the others', async (options, name) => {
  const page = await openPage(rig, options);
  await say(page, 'Please explode');
  await page.locator('.broken', { hasText: 'the tensor broke' }).waitFor();
  await wantFit(page, `an error of a worker, ${name}`);
  const neighbour = await openPage(rig, options);
  await say(neighbour, 'Hello!');
  await answered(neighbour);
  const fleet = await openFleet(options);
  await card(fleet, other.name, 'up').waitFor();
  for (const one of [page, neighbour, fleet]) await one.closeClean();
});
