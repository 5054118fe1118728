// The operator's page over a live fleet: a gateway, three workers that are processes
// of their own, and bench asking all the time. Numbers move, a worker that is killed
// turns red and its answers go on elsewhere, workers are drained, put to sleep and
// woken, and prompts that change are found.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { asOwner, eventually, inEveryLook, looks, openPage, openPages, shot, wantAccessible, wantFit } from './pages.mjs';

const program = process.env.PARLEY_BIN;
const model = ['--model', 'polly'];
const ports = await Promise.all([0, 1, 2].map(freePort));
const workers = ports.map((port) => ({ name: `127.0.0.1:${port}`, url: `http://127.0.0.1:${port}`, child: null }));
let data;
let load;

before(async () => {
  data = await mkdtemp(join(tmpdir(), 'parley-fleet-'));
  await Promise.all(workers.map(startWorker));
});

const rig = openPages(...model, '--share', 'off', '--titles', 'off', '--queue-wait', '5m', ...workers.flatMap((w) => ['--worker', w.url]));

after(async () => {
  for (const child of [load, ...workers.map((w) => w.child)]) {
    if (!child || child.exitCode !== null || child.signalCode !== null) continue;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }
  await rm(data, { recursive: true, force: true });
});

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

async function startWorker(w) {
  w.child = spawn(program, ['worker', ...model, '--addr', w.name, '--data', join(data, w.name.replace(':', '-')), '--threads', '1', '--log-level', 'error'], { stdio: 'ignore' });
  for (let n = 0; n < 600; n++) {
    if (await fetch(`${w.url}/health`).then((r) => r.ok, () => false)) return;
    await pause(100);
  }
  throw new Error(`${w.name} did not start`);
}

/** Has four users ask until it is ended. */
function startLoad() {
  load = spawn(program, ['bench', '--url', rig.server.url, '--users', '4', '--requests', '100000', '--duration', '1h', '--prompt-tokens', '32-64', '--output-tokens', '64'], { stdio: 'ignore' });
}

async function stopLoad() {
  const ended = once(load, 'exit');
  load.kill('SIGINT');
  await ended;
}

const openAdmin = (path, options = {}) => openPage(rig, options, path, 'main :is(.card, .scroll)');
const card = (page, w, state) => page.locator(`[data-worker="${w.name}"]${state ? `[data-state="${state}"]` : ''}`);
const chat = (body) =>
  fetch(`${rig.server.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: 'polly', temperature: 0, ...body }) });

/** Hears a whole answer as events, and returns its text and why it ended. */
async function hear(prompt, tokens) {
  const response = await chat({ messages: [{ role: 'user', content: prompt }], stream: true, ignore_eos: true, max_tokens: tokens });
  assert.equal(response.status, 200);
  const events = (await response.text()).split('\n').filter((l) => l.startsWith('data: {')).map((l) => JSON.parse(l.slice(6)));
  return { text: events.map((e) => e.choices[0]?.delta.content ?? '').join(''), finish: events.map((e) => e.choices[0]?.finish_reason).find(Boolean) };
}

/** How many answers a worker gives at this moment, as it says itself: the gateway's word may be a second old. */
async function answering(w) {
  const metrics = await (await fetch(`${w.url}/metrics`)).text();
  return Number(/^vllm:num_requests_running\S* (\d+)/m.exec(metrics)[1]);
}

/** Waits for a worker that gives at least so many answers, and kills the one that gives most. */
async function killBusiest(least) {
  for (let n = 0; n < 6000; n++) {
    const counts = await Promise.all(workers.map(answering));
    const most = Math.max(...counts);
    const victim = workers[counts.indexOf(most)];
    if (most >= least) {
      victim.child.kill('SIGKILL');
      return victim;
    }
    await pause(10);
  }
  assert.fail(`no worker gives ${least} answers`);
}

test('the fleet under load: numbers move by worker', async () => {
  startLoad();
  const page = await openAdmin('/admin#fleet');
  for (const w of workers) await card(page, w, 'up').waitFor();
  // An answer may be over before the page asks again, so that two workers need not be seen running at once.
  await page.waitForFunction(() => {
    window.ran ??= new Set();
    for (const a of document.querySelectorAll('[data-worker]')) if (/[1-9]\d* running/.test(a.textContent)) window.ran.add(a.dataset.worker);
    return window.ran.size >= 2;
  });
  /** What the cards say now, or false if that is what they said before. */
  const numbers = (before) => {
    const now = [...document.querySelectorAll('[data-worker] :is(.meter, .numbers)')].map((e) => e.textContent).join();
    return now !== before && now;
  };
  await page.waitForFunction(numbers, await page.evaluate(numbers));
  await eventually(async () => assert.match(await page.locator('[data-worker]').first().innerText(), /polly, parley, version \S+/));
  for (const w of workers) await card(page, w, 'up').getByText(/^ready in [<\d]/).waitFor();
  await wantAccessible(page, 'Fleet');
  await shot(page, 'admin-fleet');
  await page.closeClean();
});

test('a worker that is killed turns red, and its answers go on elsewhere', async () => {
  const prompts = Array.from({ length: 6 }, (_, i) => `Story ${i}: tell me of a lighthouse.`);
  const page = await openAdmin('/admin#fleet');
  const hearing = Promise.all(prompts.map((p) => hear(p, 160)));
  const victim = await killBusiest(2);
  await card(page, victim, 'down').waitFor();
  const colour = (one) => one.evaluate((a) => getComputedStyle(a).borderTopColor);
  await eventually(async () => assert.notEqual(await colour(card(page, victim)), await colour(card(page, workers.find((w) => w !== victim), 'up'))));
  await eventually(async () => assert.match(await page.locator('.verdict h1').innerText(), new RegExp(`${victim.name} does not answer`)));
  await wantAccessible(page, 'a worker is down');
  await shot(page, 'admin-fleet-down');

  const heard = await hearing;
  assert.deepEqual(heard.map((h) => h.finish), prompts.map(() => 'length'));
  const moved = /^parley_fleet_moves_total\{why="lost"\} (\d+)/m.exec(await (await fetch(`${rig.server.url}/metrics`, { headers: asOwner(rig.server) })).text());
  assert.ok(Number(moved?.[1]) > 0, 'nothing had to move, so nothing was shown');
  await stopLoad();
  assert.deepEqual(await Promise.all(prompts.map((p) => hear(p, 160))), heard, 'an answer that moved is another one');

  await startWorker(victim);
  await card(page, victim, 'up').waitFor();
  await page.closeClean();
});

test('an answer that moved is told with the part of each worker', async (t) => {
  const response = await chat({ messages: [{ role: 'user', content: 'Tell me of the sea.' }], stream: true, ignore_eos: true, max_tokens: 900 });
  assert.equal(response.status, 200);
  const id = response.headers.get('x-request-id');
  const events = response.body.getReader();
  for (let n = 0; n < 4; n++) await events.read();
  const victim = await killBusiest(1);
  t.after(() => startWorker(victim));
  while (!(await events.read()).done);
  for (const [name, options] of Object.entries(looks)) {
    const page = await openAdmin(`/admin#requests/${id}`, options);
    await page.waitForSelector('article h3[data-attempt="2"]');
    await eventually(async () => {
      const attempts = await page.locator('article h3').allInnerTexts();
      assert.match(attempts[0], new RegExp(`Attempt 1 of ${attempts.length}: ${victim.name}`));
    });
    for (const attempt of await page.locator('article ol.attempt').all()) {
      const stages = await attempt.locator('.what').allInnerTexts();
      assert.ok(stages[0].startsWith('router choose a worker'), stages.join());
      for (const stage of ['worker hop, there and back', 'worker receive and admit', 'engine decode']) assert.ok(stages.includes(stage), `${stage} in ${stages}`);
    }
    await eventually(async () => assert.match(await page.locator('article .fault').first().innerText(), /it was lost after \d+ tokens/));
    await wantFit(page, `an answer that moved, ${name}`);
    await shot(page, `admin-request-moved-${name}`);
    await page.closeClean();
  }
});

inEveryLook('workers are drained, resumed, put to sleep and woken', async (options, name) => {
  const page = await openAdmin('/admin#fleet', options);
  const [w] = workers;
  for (const [verb, state] of [['Drain', 'drained'], ['Resume', 'up'], ['Sleep', 'asleep'], ['Wake', 'up']]) {
    await page.getByRole('button', { name: `${verb} ${w.name}` }).click();
    await card(page, w, state).waitFor();
    if (verb === 'Sleep') await wantFit(page, `a worker sleeps, ${name}`);
    if (verb !== 'Drain') continue;
    await page.getByRole('link', { name: 'Now' }).click(); // the same word and colour on both pages
    await page.locator(`.worker[data-worker="${w.name}"] .pill.calm`, { hasText: 'drained' }).waitFor();
    await page.getByRole('link', { name: 'Fleet' }).click();
  }
  await page.getByRole('button', { name: 'Add a worker' }).click();
  await eventually(async () => assert.match(await page.locator('#add-worker').innerText(), /^parley worker --model polly --addr \S+ --register http:\S+ --fleet-join-token-file FILE$/));
  await wantFit(page, `how a worker is added, ${name}`);
  await shot(page, `admin-add-worker-${name}`);
  await page.closeClean();
});

test('a request is told from the gateway to the engine of its worker', async () => {
  const answer = await chat({ messages: [{ role: 'user', content: 'Hello there, who are you?' }], max_tokens: 24 });
  const id = answer.headers.get('x-request-id');
  await answer.json();
  const page = await openAdmin(`/admin#requests/${id}`);
  await page.waitForSelector('article ol li');
  for (const where of ['gateway', 'router', 'worker', 'engine']) await page.locator('article .what b').getByText(where, { exact: true }).first().waitFor();
  const text = await page.locator('article').innerText();
  assert.ok(workers.some((w) => text.includes(w.name)), `no worker is named in ${text}`);
  const parts = await page.locator('article ol.attempt .what').allInnerTexts();
  for (const part of ['worker hop, there and back', 'worker receive and admit', 'engine prefill', 'engine decode']) assert.ok(parts.includes(part), `${part} in ${parts}`);
  assert.match(text, /passed here, .* there/);
  await wantAccessible(page, 'a request');
  await shot(page, 'admin-request');
  await page.closeClean();
});

test('prompts that change near their beginning are found, and the tokens that differ shown', async () => {
  const same = 'You help sailors. Answer in one word and be kind to all of them, by day and by night, in calm and in storm. '.repeat(2);
  for (let i = 0; i < 130; i += 2) {
    const begin = (n) => (i < 80 ? '' : `Ticket ${n * 7919 + 13}. `);
    await Promise.all([i, i + 1].map(async (n) => (await chat({ messages: [{ role: 'user', content: begin(n) + same }], max_tokens: 1 })).json()));
  }
  const page = await openAdmin('/admin#prefix');
  await page.waitForSelector('article .now');
  await eventually(async () => assert.match(await page.locator('article .now').first().innerText(), /Ticket|\d/));
  await eventually(async () => assert.notEqual(await page.locator('article .now').first().innerText(), await page.locator('article .was').first().innerText()));
  await wantAccessible(page, 'Prefixes');
  await shot(page, 'admin-prefix');
  await page.closeClean();
});

test('a drill, before, during and after', async () => {
  const address = `127.0.0.1:${await freePort()}`;
  const drill = spawn(program, ['drill', 'cascade', '--json', '--pause', '6s', '--addr', address], { stdio: ['ignore', 'pipe', 'ignore'] });
  let printed = '';
  drill.stdout.on('data', (text) => (printed += text));
  const ended = once(drill, 'exit');
  await eventually(async () => assert.ok((await fetch(`http://${address}/readyz`)).ok));
  drill.kill('SIGSTOP'); // its gateway and its workers go on while the page is looked at
  const { stdout } = await promisify(execFile)(program, ['link', '--url', `http://${address}`]);
  const page = await openPage({ browser: rig.browser, url: `http://${address}`, server: { token: /token=(\S+)/.exec(stdout)[1] } }, {}, '/admin#fleet', '[data-worker]');
  const all = page.locator('[data-worker][data-state="up"]');
  await page.waitForFunction(() => document.querySelectorAll('[data-worker][data-state="up"]').length === 2);
  await shot(page, 'admin-drill-before');
  drill.kill('SIGCONT');
  await page.locator('[data-worker][data-state="down"]').waitFor();
  await page.locator('.verdict.unhappy').waitFor();
  await shot(page, 'admin-drill-during');
  await eventually(async () => assert.equal(await all.count(), 1));
  const [code] = await ended;
  const report = JSON.parse(printed);
  assert.equal(code, 0, printed);
  assert.ok(report.held, printed);
  assert.deepEqual(report.phases.map((p) => p.phase), ['before', 'during', 'after']);
  const [before, during, after] = report.phases;
  assert.ok(during.turned_away > 0 && during.failed === 0, printed);
  assert.deepEqual([before.answered, after.answered], [3, 3], printed);
  await page.closeClean();
});
