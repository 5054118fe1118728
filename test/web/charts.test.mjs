// The charts of the operator's page: axes, values under the pointer and by keyboard, gaps, ranges, and the way to the
// requests of a moment; and what was drawn before a restart.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, inEveryLook, openPage, openPages, shot, wantFit } from './pages.mjs';

const rig = openPages();

const openAdmin = (options, hash = '#now') => openPage(rig, options, `/admin${hash}`, '[data-chart]');
const chart = (page, title) => page.locator(`[data-chart="${title}"]`);

/** A history as the server would tell it: an answer a minute, with a hole in the middle. */
function told(seconds = 3600, step = 60) {
  const until = Math.floor(Date.now() / 1000 / step) * step;
  const data = [];
  for (let at = until - seconds, i = 0; at < until; at += step, i++) {
    if (i >= 20 && i < 30) continue; // the server was down
    const quiet = i >= 40 && i < 45; // nothing was asked of it
    data.push({ at, running: quiet ? 0 : 1 + (i % 4), waiting: i % 3, kv: 0.4, busy: 0.5, hits: quiet ? null : 0.25, requests: quiet ? 0 : 2, prefill_tokens: 100, decode_tokens: 400, failed: 0, turned_away: 0, ttft_p50: quiet ? null : 0.2, ttft_p95: quiet ? null : 0.4 + i / 100, gap_p50: quiet ? null : 0.01, gap_p95: quiet ? null : 0.02, ttft_counts: [0, quiet ? 0 : 3, 0] });
  }
  return { object: 'list', from: until - seconds, until, step_seconds: step, ttft_bounds: [0.1, 1], data };
}

const tell = (page, history) => page.route('**/admin/api/history?*', (route) => route.fulfill({ json: history }));

inEveryLook('charts have axes with units, a grid, gaps and values', async (options, name) => {
  const page = await openAdmin(options);
  const history = told();
  await tell(page, history);
  await page.reload();
  const first = chart(page, 'First token');
  await page.waitForFunction(() => document.querySelector('[data-chart="First token"] path.line')?.getAttribute('d').length > 20);

  await eventually(async () => {
    const levels = await first.locator('.levels span').allInnerTexts();
    assert.ok(levels.length >= 3 && levels[0] === '0' && levels.slice(1).every((l) => /\d ?(ms|s)$/.test(l)), `levels ${levels}`);
  });
  await eventually(async () => assert.ok((await first.locator('.moments span').allInnerTexts()).length >= 3));
  await eventually(async () => assert.ok((await first.locator('line.grid').count()) >= 6));

  // Twice nothing is known: while the server was down, and while nothing was asked.
  const pieces = async (title) => ((await chart(page, title).locator('path.line').first().getAttribute('d')).match(/M/g) ?? []).length;
  await eventually(async () => assert.equal(await pieces('First token'), 3));
  await eventually(async () => assert.equal(await pieces('Requests per second'), 2, 'no request is 0 requests per second, no server is not'));

  // The pointer.
  const area = first.locator('[role="slider"]');
  const box = await area.boundingBox();
  const position = { x: box.width * 0.1, y: box.height / 2 };
  await (options.hasTouch ? area.tap({ position }) : area.hover({ position }));
  await first.locator('[data-values]').waitFor();
  await eventually(async () => assert.match(await first.locator('[data-values]').innerText(), /p95\s+0\.4\d s/));
  await shot(page, `admin-chart-${name}`);

  // The keyboard: the last point, and one within the quiet time.
  await area.focus();
  await page.keyboard.press('End');
  await eventually(async () => assert.match(await area.getAttribute('aria-valuetext'), /p95 0\.99 s, p50 0\.20 s/));
  for (let i = 0; i < 17; i++) await page.keyboard.press('ArrowLeft');
  await eventually(async () => assert.match(await area.getAttribute('aria-valuetext'), /p95 no data/));
  await wantFit(page, `charts ${name}`);

  // Enter shows the requests of that time.
  await page.keyboard.press('Home');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#from');
  const query = new URLSearchParams(new URL(page.url()).hash.split('?')[1]);
  assert.equal(Number(query.get('from')), history.data[0].at);
  assert.equal(Number(query.get('until')), history.data[0].at + 60);
  await page.closeClean();
});

inEveryLook('a click on a chart shows the requests of that time, and a range is part of the address', async (options) => {
  const page = await openAdmin(options);
  const asked = page.waitForResponse((r) => r.url().endsWith('/admin/api/history?range=30d'));
  await page.getByRole('button', { name: '30 days' }).click();
  const month = await (await asked).json();
  assert.equal(month.until - month.from, 30 * 86400);
  assert.equal(month.step_seconds, 7200);
  await eventually(async () => assert.match(page.url(), /#now\?range=30d$/));
  await page.reload();
  await page.locator('button[aria-pressed="true"]', { hasText: '30 days' }).waitFor();
  await tell(page, told());
  await page.getByRole('button', { name: '1 hour', exact: true }).click();
  await page.waitForFunction(() => document.querySelector('[data-chart="First token"] path.line')?.getAttribute('d').length > 20);
  const area = chart(page, 'Tokens per second').locator('[role="slider"]');
  const box = await area.boundingBox();
  const position = { x: box.width * 0.7, y: 30 };
  if (options.hasTouch) {
    await area.tap({ position }); // which shows the values first
    await page.getByRole('link', { name: 'Requests of this time' }).tap();
  } else await area.click({ position });
  await page.waitForSelector('#from');
  await eventually(async () => assert.match(page.url(), /#requests\?from=\d+&until=\d+$/));
  await page.goBack();
  await page.waitForSelector('[data-chart]');
  await page.closeClean();
});

test('what really happened is drawn', async () => {
  await fetch(`${rig.server.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model: 'polly', messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 8 }) }).then((r) => r.json());
  const page = await openAdmin();
  await page.waitForFunction(() => document.querySelector('[data-chart="First token"] path.line')?.getAttribute('d').startsWith('M'));
  await page.closeClean();
});
