// The operator's page against a server that is under load: numbers move, the
// life of a request is found, everything by keyboard, in light, dark and on a phone.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { inEveryLook, openPage, openPages, shot, wantAccessible, wantFit } from './pages.mjs';

const rig = openPages();
let load;

/** Has three users ask all the time, from the first test on. */
function startLoad() {
  load ??= spawn(process.env.PARLEY_BIN, ['bench', '--url', rig.server.url, '--users', '3', '--requests', '100000', '--duration', '5m', '--prompt-tokens', '32-128', '--output-tokens', '48'], { stdio: 'ignore' });
}

after(async () => {
  const ended = once(load, 'exit');
  load.kill('SIGINT');
  await ended;
});

const openAdmin = (options, path = '/admin') => openPage(rig, options, path, 'main :is(.card, .scroll)');

const number = async (page, name) => Number((await page.locator(`[data-number="${name}"]`).innerText()).replaceAll(',', ''));

/** Waits until a number of the page is what is wanted of it. */
async function until(page, name, wanted) {
  for (;;) {
    const n = await number(page, name);
    if (wanted(n)) return n;
    await page.waitForTimeout(250);
  }
}

test('numbers move while requests come, and one sentence names the bottleneck', async () => {
  startLoad();
  const page = await openAdmin();
  const running = await until(page, 'running', (n) => n > 0);
  assert.ok(running <= 3, `${running} run of 3`);
  const first = await until(page, 'decode', (n) => n > 0);
  await until(page, 'decode', (n) => n > 0 && n !== first);
  assert.match(await page.locator('.verdict h1').innerText(), /\S+ \S+/);
  await page.waitForFunction(() => document.querySelectorAll('svg path.line[d^="M"]').length >= 6);
  await page.waitForFunction(() => document.querySelectorAll('svg path.line')[0].getAttribute('d').length > 20);
  for (const wait of ['Prefill', 'First token', 'Between tokens', 'Decode', 'Total']) {
    await page.waitForFunction((name) => /\d m?s/.test(document.querySelector(`[data-wait="${name}"]`)?.textContent ?? ''), wait);
  }
  await page.waitForFunction(() => document.querySelectorAll('[data-heat] rect').length > 0);
  assert.match(await page.locator('[data-ends]').innerText(), /by finish reason: .*(stop|length) \d+/);
  await wantAccessible(page, 'Now');
  await shot(page, 'admin-now');
  await page.closeClean();
});

test('a request is found by its id, with its life across gateway, queue and engine', async () => {
  const answer = await fetch(`${rig.server.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-client-request-id': 'a-name-of-mine' },
    body: JSON.stringify({ model: 'polly', messages: [{ role: 'user', content: 'Hello there, who are you?' }], max_tokens: 24 }),
  });
  const id = answer.headers.get('x-request-id');
  await answer.json();
  const page = await openAdmin({}, '/admin#requests');
  await page.waitForSelector(`a[href="#requests/${id}"]`);
  await page.fill('#find', 'a-name-of-mine');
  await page.press('#find', 'Enter');
  await page.waitForSelector('article ol li');
  assert.equal(await page.locator('article h2').innerText(), id);
  const stages = await page.locator('article .what b').allInnerTexts();
  for (const where of ['gateway', 'router', 'worker', 'engine']) assert.ok(stages.includes(where), `${where} in ${stages}`);
  assert.match(await page.locator('article').innerText(), /in this process: no hop/);
  await wantAccessible(page, 'Requests');
  await page.fill('#find', 'req_unheard');
  await page.press('#find', 'Enter');
  await page.waitForSelector('[role="alert"]');
  await page.closeClean();
});

test('everything is reached by keyboard, and what is wrong is filtered', async () => {
  await fetch(`${rig.server.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"model":"nope","messages":[{"role":"user","content":"x"}]}' });
  const page = await openAdmin();
  await page.keyboard.press('2');
  await page.waitForSelector('[data-worker][data-state="up"]');
  await wantAccessible(page, 'Fleet');
  await page.keyboard.press('/');
  await page.waitForFunction(() => document.activeElement?.id === 'find');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.waitForFunction(() => document.activeElement?.id === 'outcome');
  await page.selectOption('#outcome', 'refused');
  await page.waitForFunction(() => [...document.querySelectorAll('tbody .pill')].length > 0 && [...document.querySelectorAll('tbody .pill')].every((x) => x.textContent === 'invalid 404'));
  await page.locator('#outcome').blur();
  await page.keyboard.press('1');
  await page.waitForSelector('[data-number="running"]');
  await page.closeClean();
});

inEveryLook('the page', async (options, name) => {
  for (const section of ['now', 'fleet', 'requests']) {
    const page = await openAdmin(options, `/admin#${section}`).catch((err) => assert.fail(`${section}: ${err}`));
    await page.waitForTimeout(500);
    await wantFit(page, `${section}, ${name}`);
    if (section === 'now') await shot(page, `admin-${name}`);
    await page.closeClean();
  }
});
