// The operator's page against a server that is under load: numbers move, the
// life of a request is found, everything by keyboard, in light, dark and on a phone.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { eventually, inEveryLook, openPage, openPages, shot, wantAccessible, wantFit } from './pages.mjs';

const rig = openPages();
let load;

test('three users ask from now on, and think in between', async () => {
  load = spawn(process.env.PARLEY_BIN, ['bench', '--url', rig.server.url, '--users', '3', '--think', '2s', '--requests', '100000', '--duration', '1h', '--prompt-tokens', '32-128', '--output-tokens', '48'], { stdio: 'ignore' });
  await once(load, 'spawn');
});

after(async () => {
  const ended = once(load, 'exit');
  load.kill('SIGINT');
  await ended;
});

const openAdmin = (options, path = '/admin') => openPage(rig, options, path, 'main :is(.card, .scroll)');

const number = async (page, name) => Number((await page.locator(`[data-number="${name}"]`).innerText()).replaceAll(',', ''));

/** Waits until a number of the page is what is wanted of it. */
const until = (page, name, wanted) =>
  eventually(async () => {
    const n = await number(page, name);
    assert.ok(wanted(n), `${name} is ${n}`);
    return n;
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
  await eventually(async () => assert.equal(await page.locator('article h2').innerText(), id));
  for (const where of ['gateway', 'router', 'worker', 'engine']) await page.locator('article .what b').getByText(where, { exact: true }).first().waitFor();
  await eventually(async () => assert.match(await page.locator('article').innerText(), /in this process: no hop/));
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
  const page = await openAdmin(options);
  for (const [section, there] of Object.entries({ now: '[data-number="running"]', fleet: '[data-worker]', requests: 'tbody tr a' })) {
    await page.evaluate((s) => (location.hash = s), section);
    await page.locator(there).first().waitFor();
    await wantFit(page, `${section}, ${name}`);
    if (section === 'now') await shot(page, `admin-${name}`);
  }
  await page.closeClean();
});

// The last one: a chart has a line after two of its steps, and that time has passed by now.
test('numbers move while requests come, and one sentence names the bottleneck', async () => {
  const page = await openAdmin();
  const running = await until(page, 'running', (n) => n > 0);
  assert.ok(running <= 3, `${running} run of 3`);
  const first = await until(page, 'decode', (n) => n > 0);
  await until(page, 'decode', (n) => n > 0 && n !== first);
  await eventually(async () => assert.match(await page.locator('.verdict h1').innerText(), /\S+ \S+/));
  await page.waitForFunction(() => document.querySelectorAll('svg path.line[d^="M"]').length >= 6);
  await page.waitForFunction(() => document.querySelectorAll('svg path.line')[0].getAttribute('d').length > 20);
  for (const wait of ['Prefill', 'First token', 'Between tokens', 'Decode', 'Total']) {
    await page.waitForFunction((name) => /\d m?s/.test(document.querySelector(`[data-wait="${name}"]`)?.textContent ?? ''), wait);
  }
  await page.waitForFunction(() => document.querySelectorAll('[data-heat] rect').length > 0);
  await eventually(async () => assert.match(await page.locator('[data-ends]').innerText(), /by finish reason: .*(stop|length) \d+/));
  await wantAccessible(page, 'Now');
  await shot(page, 'admin-now');
  await page.closeClean();
});
