// The page of plans, in /admin and as the one file that `parley plan --html` writes: what it computes is what the
// command computes, sliders move it, the address keeps it, in light, dark and on a phone.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { eventually, inEveryLook, openPage, openPages, shot, wantAccessible, wantFit } from './pages.mjs';

const rig = openPages();
const parley = (...args) => execFileSync(process.env.PARLEY_BIN, ['plan', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });

const openPlan = (options, query = '') => openPage(rig, options, `/admin#plan${query && `/${encodeURIComponent(query)}`}`, '.sentence[data-bottleneck]');

/** Settings as the address and as the command take them. */
const cases = [
  { query: 'model=70b&tp=8&rate=5000&hit=0.9&ttft=2&output=1000', flags: ['--model', '70b', '--set', 'tp=8,rate=5000,hit=0.9,ttft=2,output=1000'] },
  { query: 'model=70b&kv=fp8&tp=8&rate=50000&hit=0.8&new=0', flags: ['--model', '70b', '--kv', 'fp8', '--set', 'tp=8,rate=50000,hit=0.8,new=0'] },
  { query: 'model=7b&prompt=6000&output=25&ttft=0.2&tpot=0.01&percentile=0.95&rate=2000&hit=0.97', flags: ['--model', '7b', '--set', 'prompt=6000,output=25,ttft=0.2,tpot=0.01,percentile=0.95,rate=2000,hit=0.97'] },
  { query: 'model=qwen3-235b-a22b&device=h200&weights=fp8&tp=8&dau=1000000&hit=0.5', flags: ['--model', 'qwen3-235b-a22b', '--device', 'h200', '--weights', 'fp8', '--set', 'tp=8,dau=1000000,hit=0.5'] },
  { query: 'model=gemma-3-27b&device=l40s&tp=4&rate=50', flags: ['--model', 'gemma-3-27b', '--device', 'l40s', '--set', 'tp=4,rate=50'] },
  { query: 'model=70b&device=h100', flags: ['--model', '70b'] },
];

test('the page computes what the command computes, every cell of it', async () => {
  for (const c of cases) {
    const want = JSON.parse(parley('--json', ...c.flags));
    const page = await openPlan({}, c.query);
    await eventually(async () => assert.equal(await page.locator('.sentence[data-bottleneck]').innerText(), want.sentence));
    await page.locator('details summary').click();
    await page.waitForSelector('[data-cell="egress"]');
    const got = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll('[data-cell]')].map((x) => [x.dataset.cell, x.dataset.value])));
    assert.equal(Object.keys(got).length, Object.keys(want.values).length);
    for (const [name, value] of Object.entries(want.values)) {
      const here = Number(got[name]);
      if (value === null) assert.ok(!Number.isFinite(here), `${c.query}: ${name} is ${got[name]}, and unbounded for the command`);
      else assert.ok(Math.abs(here - value) <= 1e-9 * Math.abs(value), `${c.query}: ${name} is ${here}, and ${value} for the command`);
    }
    await page.closeClean();
  }
});

test('settings move the plan, and the address keeps them', async () => {
  const page = await openPlan({}, cases[0].query);
  const text = (name) => page.locator(`[data-plan="${name}"]`).innerText();
  await eventually(async () => assert.equal(await text('sessions_gpu'), '41.5'));
  await eventually(async () => assert.equal(await page.locator('[data-set="tp"]').inputValue(), '8'));
  const before = await text('month');
  await page.selectOption('[data-set="kv"]', 'fp8');
  await eventually(async () => assert.equal(await text('sessions_gpu'), '83.1'));
  await eventually(async () => assert.notEqual(await text('month'), before));
  await page.locator('[data-set="hit"]').fill('200'); // the right end
  await page.locator('[data-set="follow"]').click();
  await eventually(async () => assert.match(await text('month'), /^\$[\d,]+$/));
  await eventually(async () => assert.match(page.url(), /kv%3Dfp8.*hit%3D1/));
  const cost = await text('cost_served');
  const again = await openPage(rig, {}, new URL(page.url()).pathname + new URL(page.url()).hash, '.sentence[data-bottleneck]');
  await eventually(async () => assert.equal(await again.locator('[data-plan="cost_served"]').innerText(), cost));
  await eventually(async () => assert.equal(await again.locator('[data-set="kv"]').inputValue(), 'fp8'));
  await again.closeClean();
  await page.closeClean();
});

test('the cliff stands at the share of requests that may be late, and a larger model moves it', async () => {
  const page = await openPlan({}, cases[2].query);
  await eventually(async () => assert.match(await page.locator('[data-cliff="7b"]').innerText(), /meets the objective from 9[67]%/));
  await eventually(async () => assert.match(await page.locator('[data-cliff="13b"]').innerText(), /meets the objective from 9[789]%|never/));
  await page.selectOption('[data-set="tp"]', '4');
  await eventually(async () => assert.match(await page.locator('[data-cliff="7b"]').innerText(), /always|from \d+(\.\d+)?%/));
  await eventually(async () => assert.ok((await page.locator('[data-way]').count()) > 0, 'no way to serve is shown'));
  await page.closeClean();
});

inEveryLook('the page', async (options, name) => {
  const page = await openPlan(options, cases[1].query);
  await page.locator('details summary').click();
  await wantFit(page, `plan, ${name}`);
  await page.locator('details summary').click();
  await shot(page, `admin-plan-${name}`);
  await page.closeClean();
});

test('the file is complete: it opens without a server, and keeps its settings in its address', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'plan-')), 'plan.html');
  parley('--html', file, '--model', '70b', '--tp', '8', '--hit', '90%', '--ttft', '2s', '--output', '1000');
  const context = await rig.browser.newContext({ offline: true });
  const page = await context.newPage();
  const asked = [];
  page.on('request', (r) => asked.push(r.url()));
  page.on('pageerror', (err) => assert.fail(err));
  await page.goto(pathToFileURL(file).href);
  await page.waitForSelector('[data-bottleneck="memory"]');
  await page.selectOption('[data-set="kv"]', 'fp8');
  await eventually(async () => assert.equal(await page.locator('[data-plan="sessions_gpu"]').innerText(), '83.1'));
  await eventually(async () => assert.match(page.url(), /#model=70b&kv=fp8|#.*kv=fp8/));
  await page.reload();
  await eventually(async () => assert.equal(await page.locator('[data-set="kv"]').inputValue(), 'fp8'));
  assert.deepEqual(asked.filter((u) => !u.startsWith('file:')), []);
  await wantAccessible(page, 'the file');
  await page.setViewportSize({ width: 390, height: 844 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `the file is ${wide} pixels too wide for a phone`);
  await context.close();
});
