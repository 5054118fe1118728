// A hostile page in a real browser, in the profile of a user who is signed in: it can neither
// read nor change nor use a server, with keys or without, nor a worker.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, createServer as listenTCP } from 'node:net';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { start, stop } from '../server.mjs';
import { attackByElement, attackByFetch, attackByForm, attackByStream, attackByWindow } from './attacks.mjs';
import { chromium, eventually } from './pages.mjs';

const secret = 'the safe opens with 4711';
const keyless = { log: [], flags: ['--model', 'polly-mini', '--threads', '1'] };
const keyed = { log: [], flags: [] }; // in front of the worker
const servers = { 'without keys': keyless, 'with keys': keyed };
const onlySome = process.env.PARLEY_ATTACKS !== 'all' && 'make security runs it';
const evilPage = '<!doctype html><title>evil</title><body>';
const hostile = { name: 'evil.test', port: 0 };
let browser, context, worker, listener;

const hello = { model: 'polly-mini', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 };
const writesOf = (conversation) => [
  { method: 'POST', path: '/v1/conversations', body: '{"metadata":{"by":"evil"}}' },
  { method: 'POST', path: `/v1/conversations/${conversation}`, body: '{"metadata":{"by":"evil"}}' },
  { method: 'POST', path: `/v1/conversations/${conversation}/messages`, body: JSON.stringify({ ...hello, input: 'Hi' }) },
  { method: 'DELETE', path: `/v1/conversations/${conversation}`, body: '{}' },
  { method: 'POST', path: '/v1/chat/completions', body: JSON.stringify(hello) },
  { method: 'POST', path: '/v1/messages', body: JSON.stringify(hello) },
  { method: 'POST', path: '/v1/responses', body: '{"model":"polly-mini","input":"Hi","max_output_tokens":2}' },
  { method: 'POST', path: '/v1/moderations', body: '{"input":"Hi"}' },
  { method: 'POST', path: '/v1/organization/admin_api_keys', body: '{"name":"evil"}' },
  { method: 'POST', path: '/admin/api/organization/admin_api_keys', body: '{"name":"evil"}' },
  { method: 'POST', path: '/v1/organization/projects', body: '{"name":"evil"}' },
  { method: 'POST', path: '/admin/api/workers/drain', body: JSON.stringify({ worker: new URL(worker.url).host }) },
  { method: 'POST', path: `/fleet/workers/${new URL(worker.url).host}/drain`, body: '{}' },
  { method: 'POST', path: '/fleet/register', body: '{"name":"evil","url":"http://127.0.0.1:1","kind":"openai"}' },
  { method: 'POST', path: '/session', body: '{"key":"sk-evil"}' },
  { method: 'DELETE', path: '/session', body: '{}' },
  { method: 'DELETE', path: '/admin/session', body: '{}' },
];
const readsOf = (conversation) => [
  '/', '/v1/models', '/v1/conversations', `/v1/conversations/${conversation}/items`, `/v1/conversations/${conversation}/export`, '/v1/files', '/v1/queue',
  '/v1/organization/usage/completions?start_time=1', '/v1/organization/api_keys', '/session', '/admin/session', '/metrics', '/admin/api/now', '/admin/api/requests',
  '/admin/api/organization/audit_logs', '/debug/pprof/profile?seconds=1', '/fleet/workers', '/fleet/findings',
];
const socketsOf = [
  { path: '/v1/chat/completions', frame: JSON.stringify({ ...hello, stream: true }) },
  { path: '/v1/responses', frame: '{"type":"response.create","model":"polly-mini","input":"Hi","max_output_tokens":2}' },
];
const streamsOf = ['/admin/api/live'];

const api = async (server, path, options = {}) => {
  const response = await fetch(server.url + path, { ...options, headers: { authorization: `Bearer ${server.credential}`, 'content-type': 'application/json' } });
  assert.equal(response.status, 200, `${path}: ${await response.clone().text()}`);
  return (response.headers.get('content-type') ?? '').includes('json') ? response.json() : response.text();
};

/** All that an attack could have changed or used, as the owner of a server sees it. */
async function stateOf(server) {
  const conversations = await api(server, '/v1/conversations?limit=100');
  const metrics = server.flags.includes('--worker') ? await (await fetch(`${worker.url}/metrics`)).text() : await api(server, '/metrics');
  const keys = [server.admin && (await api(server, '/v1/organization/admin_api_keys')), await api(server, '/v1/organization/api_keys')];
  return {
    conversations: conversations.data.map(({ id, metadata, updated_at: updated }) => ({ id, metadata, updated })),
    items: (await api(server, `/v1/conversations/${server.conversation}/items`)).data.length,
    files: (await api(server, '/v1/files')).data,
    keys: keys.filter(Boolean).flatMap((list) => list.data.map((k) => k.name)),
    projects: (await api(server, '/v1/organization/projects')).data.map((p) => p.name),
    workers: server.admin && (await api(server, '/fleet/workers')).data.map(({ name, state }) => ({ name, state })),
    changes: (await api(server, '/v1/organization/audit_logs')).data.length,
    tokens: metrics.split('\n').filter((line) => /^parley_engine_(prompt|output)_tokens_total/.test(line)),
  };
}

/** How many requests a server has refused. */
async function refusedBy(server) {
  const lines = (await api(server, '/metrics')).matchAll(/^parley_http_requests_total\{code="40[13]".*\} (\d+)$/gm);
  return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Stores a conversation, and signs the browser's user in to both pages. */
async function settle(server, context, credential) {
  server.credential = credential;
  const items = [{ type: 'message', role: 'user', content: secret }];
  server.conversation = (await api(server, '/v1/conversations', { method: 'POST', body: JSON.stringify({ items }) })).id;
  const page = await context.newPage();
  for (const [path, session] of [['/', '/session'], ['/admin', '/admin/session']]) {
    await page.goto(server.url + path);
    const status = await page.evaluate(async ([where, key]) => (await fetch(where, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ key }) })).status, [session, credential]);
    assert.equal(status, 200);
  }
  await page.close();
}

/** Starts a worker without a key. */
async function startWorker() {
  const child = spawn(process.env.PARLEY_BIN, ['worker', '--model', 'polly-mini', '--threads', '1', '--addr', '127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] });
  const url = await new Promise((resolve, reject) => {
    child.once('exit', () => reject(new Error('the worker ended early')));
    createInterface({ input: child.stderr }).on('line', (line) => {
      const ready = /^Parley worker for \S+ on (http:\S+)$/.exec(line);
      if (ready) resolve(ready[1]);
    });
  });
  return { url, child };
}

before(async () => {
  listener = createServer((_, response) => response.setHeader('content-type', 'text/html').end(evilPage));
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  hostile.port = listener.address().port;
  worker = await startWorker();
  keyed.flags = ['--worker', worker.url, '--fleet-operate-token', 'operate-token-0123456789'];
  await start(keyless);
  await start(keyed);
  // Every name is this machine: what DNS rebinding gives an attacker.
  const args = ['--no-sandbox', '--host-resolver-rules=MAP *.test 127.0.0.1'];
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args });
  context = await browser.newContext();
  context.setDefaultTimeout(60_000);
  await settle(keyless, context, keyless.token);
  const { stdout } = await promisify(execFile)(process.env.PARLEY_BIN, ['keys', 'create', '--admin', '--name', 'boss', '--data', keyed.data]);
  await eventually(async () => assert.equal((await fetch(`${keyed.url}/v1/models`)).status, 401));
  keyed.admin = true;
  await settle(keyed, context, stdout.trim());
});
after(async () => {
  await browser?.close();
  listener?.close();
  if (worker && worker.child.exitCode === null) {
    worker.child.kill('SIGINT');
    await once(worker.child, 'exit');
  }
  await stop(keyless);
  await stop(keyed);
});

/** The pages from which an attacker comes, by what browsers make of them. */
const attackers = {
  'a page of another site': () => `http://${hostile.name}:${hostile.port}/`,
  'a page of another port': () => `http://127.0.0.1:${hostile.port}/`, // same-site: cookies are sent along
};

async function openHostile(address) {
  const page = await context.newPage();
  await page.goto(address);
  assert.equal(await page.title(), 'evil');
  return page;
}

/** Tries everything on a server from a page. Returns what the page has gained. */
async function attack(page, target, conversation, writes = writesOf(conversation)) {
  const reads = readsOf(conversation);
  const gains = await page.evaluate(attackByFetch, { target, reads, writes });
  const streams = await page.evaluate(attackByStream, { target, sockets: socketsOf, streams: streamsOf });
  await page.evaluate(attackByForm, { target, writes });
  const embedded = await page.evaluate(attackByElement, { target, reads });
  const windows = await page.evaluate(attackByWindow, { target, pages: ['/', '/admin', `/c/${conversation}`] });
  return { read: gains.map((g) => g.what), text: gains.map((g) => g.text).join('\n'), streams, embedded, windows };
}

const nothing = { read: [], text: '', streams: [], embedded: [], windows: [] };

for (const [from, address] of Object.entries(attackers)) {
  for (const [kind, server] of Object.entries(servers)) {
    test(`${from} gains nothing from a server ${kind}`, { skip: from.endsWith('site') && onlySome }, async () => {
      const [was, refused] = [await stateOf(server), await refusedBy(server)];
      const page = await openHostile(address());
      assert.deepEqual(await attack(page, server.url, server.conversation), nothing);
      await page.close();
      await wantUnharmed(server, was, refused);
    });
  }
}

/** Wants a server to have refused an attack: nothing was changed or used, and the user's sessions go on. */
async function wantUnharmed(server, was, refused) {
  assert.deepEqual(await stateOf(server), was);
  await eventually(async () => assert.ok((await refusedBy(server)) >= refused + 50, 'the attack did not reach the server'));
  const page = await context.newPage();
  for (const [path, wants] of [['/', '/v1/conversations'], ['/admin', '/admin/api/now']]) {
    await page.goto(server.url + path);
    assert.equal(await page.evaluate(async (where) => (await fetch(where)).status, wants), 200, wants);
  }
  await page.close();
}

/**
 * An attacker's page after DNS rebinding: its own name and port now lead to the server, so that
 * all it asks is of its own origin. A listener gives the page and carries all else to the server as it is.
 */
async function openRebound(server) {
  const evil = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n' + evilPage;
  const rebound = listenTCP((from) => {
    from.on('error', () => from.destroy());
    from.once('data', (first) => {
      if (first.toString('latin1').startsWith('GET /evil ')) return from.end(evil);
      const to = connect(Number(new URL(server.url).port), '127.0.0.1');
      to.on('error', () => from.destroy());
      to.write(first);
      return from.pipe(to).pipe(from);
    });
  });
  rebound.listen(0, '127.0.0.1');
  await once(rebound, 'listening');
  const origin = `http://${hostile.name}:${rebound.address().port}`;
  const page = await openHostile(`${origin}/evil`);
  page.once('close', () => rebound.close());
  return { page, origin };
}

for (const [kind, server] of Object.entries(servers)) {
  test(`a name that points here gains nothing from a server ${kind}`, { skip: server === keyed && onlySome }, async () => {
    const [was, refused] = [await stateOf(server), await refusedBy(server)];
    const { page, origin } = await openRebound(server);
    const gains = await attack(page, origin, server.conversation);
    await page.close();
    // The pages and the state of a session are for all. They name neither a model nor what anyone wrote.
    assert.deepEqual(gains.read.filter((what) => !/^(no-cors )?GET (\/|\/session|\/admin\/session)$/.test(what) && !/ (DELETE|POST) \S*session/.test(` ${what}`)), []);
    assert.doesNotMatch(gains.text, /4711|polly|conv_|local-|"signed_in":true/);
    assert.deepEqual(gains.streams, []);
    await wantUnharmed(server, was, refused);
  });
}

test('hostile pages gain nothing from a worker without a key', async () => {
  const writes = [
    { method: 'POST', path: '/v1/completions', body: '{"model":"polly-mini","prompt":"Hi","max_tokens":2}' },
    { method: 'POST', path: '/sleep', body: '{}' },
  ];
  const reads = ['/v1/models', '/metrics', '/parley/v1/snapshot'];
  const addresses = [...Object.values(attackers).map((address) => ({ address: address(), target: worker.url }))];
  for (const { address, target } of addresses) {
    const page = await openHostile(address);
    assert.deepEqual(await page.evaluate(attackByFetch, { target, reads, writes }), []);
    await page.evaluate(attackByForm, { target, writes });
    await page.close();
  }
  const { page, origin } = await openRebound(worker);
  assert.deepEqual(await page.evaluate(attackByFetch, { target: origin, reads, writes }), []);
  await page.close();
  const metrics = await (await fetch(`${worker.url}/metrics`)).text();
  for (const line of metrics.split('\n').filter((l) => /^parley_engine_(prompt|output)_tokens_total/.test(l))) assert.match(line, / 0$/);
  assert.equal((await fetch(`${worker.url}/v1/models`)).status, 200); // it is awake
});

test('the same attempts from the own page succeed, so the attacks are real', async () => {
  for (const server of [keyless, keyed]) {
    const was = await stateOf(server);
    const page = await context.newPage();
    await page.goto(`${server.url}/licenses.txt`); // a document of the origin that has no scripts
    const writes = writesOf(server.conversation).slice(0, 3); // others would end the session
    const gains = await attack(page, server.url, server.conversation, writes);
    await page.close();
    assert.match(gains.text, /4711/);
    assert.deepEqual(gains.streams, ['WebSocket /v1/chat/completions', 'WebSocket /v1/responses', 'EventSource /admin/api/live']);
    const now = await stateOf(server);
    for (const member of ['conversations', 'tokens']) assert.notDeepEqual(now[member], was[member]);
  }
});
