// The operator's list of requests: filters, pages, a stable order, and all of it in the address.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, inEveryLook, openPage, openPages, shot, wantFit } from './pages.mjs';

const rig = openPages();

const ask = (body) => fetch(`${rig.server.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 2, ...body }) }).then((r) => r.text());

const openRequests = (options, query = '') => openPage(rig, options, `/admin#requests${query}`, '[data-pages]');
const rows = (page) => page.locator('tbody tr:has(a)');
const queryOf = (page) => Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.split('?')[1]));

/** The times at which the requests of the page have started, as the server says. */
async function startsOf(page) {
  const { after } = queryOf(page);
  const list = await page.evaluate((a) => fetch(`/admin/api/requests?limit=50${a ? `&after=${a}` : ''}`).then((r) => r.json()), after);
  return list.data.map((l) => l.started);
}

test('requests are made', async () => {
  for (let i = 0; i < 55; i++) await ask({ model: i % 2 ? 'polly' : 'polly-mini' });
  await ask({ model: 'nope' });
});

inEveryLook('requests are filtered and paged, in the order of their starts, and the address says how', async (options, name) => {
  const page = await openRequests(options);
  await page.waitForFunction(() => document.querySelectorAll('tbody tr a').length === 50);
  await eventually(async () => assert.match(await page.locator('[data-pages]').innerText(), /^1 to 50 of 56\. The server keeps the latest 2,000 requests/));
  const starts = await startsOf(page);
  assert.deepEqual(starts, starts.toSorted().toReversed());

  await page.getByRole('button', { name: 'Older' }).click();
  await page.waitForFunction(() => document.querySelectorAll('tbody tr a').length === 6);
  await eventually(async () => assert.match(await page.locator('[data-pages]').innerText(), /^51 to 56 of 56/));
  await eventually(async () => assert.ok((await startsOf(page))[0] <= starts.at(-1)));
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll('tbody tr a').length === 6);
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll('tbody tr a').length === 50);

  await page.selectOption('[data-filter="model"]', 'polly-mini');
  await page.waitForFunction(() => document.querySelector('[data-pages]').textContent.includes('of 28.'));
  assert.equal(queryOf(page).model, 'polly-mini');
  await page.selectOption('[data-filter="model"]', '');
  await page.selectOption('[data-filter="status"]', '404');
  await page.waitForFunction(() => document.querySelector('[data-pages]').textContent.includes('1 to 1 of 1.'));
  await eventually(async () => assert.match(await rows(page).first().innerText(), /invalid 404/));

  // What is chosen stays when one request is opened, and when the page is.
  await rows(page).first().locator('a').click();
  await page.waitForSelector('article h2');
  assert.equal(queryOf(page).status, '404');
  await wantFit(page, `a request of a list, ${name}`);
  await page.reload();
  await page.waitForSelector('article h2');
  await eventually(async () => assert.equal(await page.locator('[data-filter="status"]').inputValue(), '404'));

  await page.getByRole('button', { name: 'Show all' }).click();
  await page.waitForFunction(() => document.querySelector('[data-pages]').textContent.includes('of 56.'));
  await page.selectOption('[data-filter="slower_than"]', '60');
  await page.waitForSelector('text=No stored request matches.');
  await page.closeClean();
});

test('a time chooses requests, by form and by address', async () => {
  const from = Math.floor(Date.now() / 1000) - 3600;
  const page = await openRequests({}, `?from=${from}&until=${from + 60}`);
  await page.waitForSelector('text=No stored request matches.');
  await eventually(async () => assert.equal(new Date(await page.locator('#from').inputValue()).getTime() / 1000, from));
  await page.locator('#until').fill('');
  await page.locator('#until').blur();
  await page.waitForFunction(() => document.querySelectorAll('tbody tr a').length > 0);
  assert.equal(queryOf(page).until, undefined);

  // The key for the search field takes the place of what stands there.
  await page.fill('#find', 'req_old');
  await page.locator('h1').click();
  await page.keyboard.press('/');
  await page.waitForFunction(() => document.activeElement?.id === 'find');
  await page.keyboard.type('x');
  await eventually(async () => assert.equal(await page.locator('#find').inputValue(), 'x'));
  await page.closeClean();
});

inEveryLook('the list is accessible and fits', async (options, name) => {
  const page = await openRequests(options);
  await rows(page).first().waitFor();
  await wantFit(page, `requests ${name}`);
  await shot(page, `admin-requests-${name}`);
  await page.closeClean();
});
