// What operators and their colleagues look for on the first day: the way from the chat to their usage, the description of
// the API, one word for organisations, a trail of changes, and numbers that tell what was answered from what was not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answered, asOwner, eventually, inEveryLook, openPage, openPages, openWith, say, shot, wantFit } from './pages.mjs';

const rig = openPages('--prices', 'polly=0/0/100000');
const keys = {};

async function call(method, path, body, secret = keys.boss) {
  const headers = { 'content-type': 'application/json', ...(secret ? { authorization: `Bearer ${secret}` } : asOwner(rig.server)) };
  const response = await fetch(rig.server.url + path, { method, headers, body: body && JSON.stringify(body) });
  return { status: response.status, ...(await response.json()) };
}

const ask = (secret) => call('POST', '/v1/chat/completions', { model: 'polly', messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 8, ignore_eos: true }, secret);

inEveryLook('the chat leads to usage and administration', async (options, name) => {
  const page = await openPage(rig, options);
  const link = page.getByRole('link', { name: 'Usage and administration' });
  if (options.isMobile) await page.getByRole('button', { name: 'Show the list of chats' }).click();
  await wantFit(page, `the way to usage, ${name}`);
  await link.click();
  await page.waitForURL(/\/admin/);
  await page.closeClean();
});

inEveryLook('every route of the API is described, and found by a field', async (options, name) => {
  const page = await openPage(rig, options, '/docs', 'main section details');
  const routes = page.locator('main section > details:not([hidden])');
  const all = await routes.count();
  const { paths } = await (await fetch(`${rig.server.url}/openapi.json`)).json();
  assert.equal(all, Object.values(paths).flatMap((methods) => Object.keys(methods)).length);
  for (const path of ['/v1/embeddings', '/v1/rerank', '/v1/moderations', '/v1/batches', '/v1/messages', '/v1/responses']) assert.ok(path in paths, path);
  await page.fill('#find', 'top_logprobs chat/completions');
  await page.waitForFunction((n) => document.querySelectorAll('main section > details:not([hidden])').length < n, all);
  await page.getByText('1 route', { exact: true }).waitFor();
  const chat = routes.filter({ has: page.getByText('/v1/chat/completions', { exact: true }) }).first();
  await chat.locator('summary').first().click();
  await chat.locator('li', { hasText: 'temperature' }).first().waitFor();
  await wantFit(page, `the API, ${name}`);
  await shot(page, `api-${name}`);
  await page.closeClean();
});

inEveryLook('who opens the admin page without a key is asked once, and then sees every part', async (options, name) => {
  const page = await openPage({ ...rig, server: {} }, options, '/admin#usage', 'dialog[open]');
  const dialog = page.locator('dialog[open]');
  await dialog.locator('input').first().waitFor();
  await eventually(async () => assert.equal(await dialog.locator('input').first().evaluate((field) => field === document.activeElement), true, 'the field has the focus'));
  await eventually(async () => assert.equal(await dialog.count(), 1));
  assert.equal(await page.locator('main [role="alert"]').count(), 0);
  await wantFit(page, `signing in to the admin page, ${name}`);
  await dialog.locator('input').first().fill(rig.server.token);
  await dialog.getByRole('button', { name: 'Sign in', exact: true }).click();
  await dialog.waitFor({ state: 'hidden' });
  for (const part of ['usage', 'keys', 'requests', 'now']) {
    await page.evaluate((p) => (location.hash = p), part);
    await page.locator(`header nav a[aria-current][href="#${part}"]`).waitFor();
    await page.locator('main :is(.card, .scroll)').first().waitFor();
    assert.equal(await page.locator('main [role="alert"]').count(), 0, part);
    assert.equal(await dialog.count(), 0, part);
  }
  await page.closeClean();
});

test('what admins do is done: keys and organisations are made, changed, rotated, blocked and deleted', async () => {
  keys.boss = (await call('POST', '/v1/organization/admin_api_keys', { name: 'boss' })).value;
  const made = await call('POST', '/v1/organization/api_keys', { name: 'site', organization: 'acme', tier: 'enterprise', limits: { requests_per_minute: 600, monthly_budget: '40.00' } });
  keys.site = made.value;
  const spare = await call('POST', '/v1/organization/api_keys', { name: 'spare', organization: 'acme' });
  for (const [method, path, body] of [
    ['POST', `/v1/organization/api_keys/${made.id}`, { limits: { monthly_budget: '1.60', requests_per_minute: 600 } }],
    ['POST', `/v1/organization/api_keys/${spare.id}/rotate`, {}],
    ['POST', `/v1/organization/api_keys/${spare.id}`, { blocked: true }],
    ['DELETE', `/v1/organization/api_keys/${spare.id}`],
  ]) {
    assert.equal((await call(method, path, body)).status, 200, `${method} ${path}`);
  }
});

inEveryLook('who changed what is listed, with before and after', async (options, name) => {
  const page = await openWith(rig, keys.boss, '/admin#audit', 'tr[data-action]', options);
  for (const [action, told] of [
    ['admin_api_key.created', /local token/],
    ['api_key.created', /site/],
    ['api_key.updated', /40\.00[\s\S]*1\.60/],
    ['api_key.rotated', /./],
    ['api_key.updated', /blocked: (none|false) → true/],
    ['api_key.deleted', /./],
  ]) {
    await page.locator(`tr[data-action="${action}"]`, { hasText: told }).first().waitFor();
  }
  await page.getByLabel('Kind of change').selectOption('admin_api_key.');
  await page.locator('tr[data-action="api_key.created"]').first().waitFor({ state: 'detached' });
  await wantFit(page, `the audit log, ${name}`);
  await page.closeClean();
});

test('a chat with its title is one request, and what is refused is not counted with it', async () => {
  const page = await openWith(rig, keys.boss, '/', '#prompt');
  await say(page, 'Hello!');
  await answered(page);
  await page.closeClean();
  const statuses = [];
  for (let n = 0; n < 10; n++) statuses.push((await ask(keys.site)).status);
  assert.deepEqual(statuses, [200, 200, ...Array(8).fill(429)]); // two answers are the budget
});

inEveryLook('usage counts what was answered, and neither titles nor what was refused', async (options, name) => {
  const page = await openWith(rig, keys.boss, '/admin#usage/30/key', 'tr[data-used="site"]', options);
  const requests = (key) => page.locator(`tr[data-used="${key}"] td:nth-child(2)`).innerText();
  await eventually(async () => assert.deepEqual([await requests('site'), await requests('boss')], ['2', '1']));
  await eventually(async () => assert.equal(await page.locator('[data-number="used-requests"]').innerText(), '3'));
  await wantFit(page, `usage, ${name}`);
  await page.closeClean();
});

inEveryLook('the headline names the organisation over its budget, and the pages have one word for it', async (options, name) => {
  for (let n = 0; n < 8; n++) assert.equal((await ask(keys.site)).status, 429);
  const page = await openWith(rig, keys.boss, '/admin#now', '.verdict h1', options);
  await page.locator('.verdict h1', { hasText: /\d+ of \d+ requests of the last minute exceeded a limit in organisation acme: .*budget/ }).waitFor();
  await shot(page, `admin-budget-${name}`);
  for (const part of await page.locator('header nav a').evaluateAll((all) => all.map((a) => a.getAttribute('href')))) {
    await page.evaluate((p) => (location.hash = p), part);
    await page.locator(`header nav a[aria-current][href="${part}"]`).waitFor();
    const words = /\b(tenants?|projects?)\b/i.exec(await page.locator('main').innerText());
    assert.equal(words?.[0], undefined, part);
  }
  await page.closeClean();
});
