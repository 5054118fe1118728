// Budgets on the operator's page: keys whose budget is hardly touched, nearly spent
// and spent; what was told of them; and what their holders see.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asOwner, eventually, inEveryLook, openPages, openWith as signedIn, shot, wantAccessible, wantFit } from './pages.mjs';

const rig = openPages('--prices', 'polly=0/0/100000'); // an answer of 8 tokens costs 0.80
const keys = {};

async function post(path, body, secret) {
  const headers = { 'content-type': 'application/json', ...(secret ? { authorization: `Bearer ${secret}` } : asOwner(rig.server)) };
  return fetch(rig.server.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
}

const ask = (name) => post('/v1/chat/completions', { model: 'polly', messages: [{ role: 'user', content: 'Hello!' }], max_tokens: 8, ignore_eos: true }, keys[name]);

const openWith = (...args) => signedIn(rig, ...args);

test('keys show how far their budgets are spent', async () => {
  keys.boss = (await (await post('/v1/organization/admin_api_keys', { name: 'boss' })).json()).value;
  for (const [name, budget, answers] of [['calm', '40.00', 3], ['near', '4.00', 4], ['gone', '1.60', 2]]) {
    keys[name] = (await (await post('/v1/organization/api_keys', { name, organization: 'acme', tier: 'enterprise', limits: { monthly_budget: budget, requests_per_minute: 600 } }, keys.boss)).json()).value;
    for (let i = 0; i < answers; i++) assert.equal((await ask(name)).status, 200, name);
  }
  const told = await ask('near');
  assert.deepEqual([told.status, told.headers.get('x-parley-budget-used')], [200, '0.80']);
  const refused = await ask('gone');
  assert.deepEqual([refused.status, refused.headers.get('x-parley-budget-used')], [429, '1.00']);

  const page = await openWith(keys.boss, '/admin#keys', 'tr[data-key="near"]');
  await page.locator('[data-alert]').nth(1).waitFor();
  for (const state of ['calm"] [data-state="ok"]', 'near"] [data-state="spent"]', 'gone"] [data-state="spent"]']) await page.locator(`tr[data-key="${state}`).waitFor(); // five answers are all of it
  const fill = (key) => page.locator(`tr[data-key="${key}"] .bar-used`).evaluate((b) => getComputedStyle(b).fill);
  const [calm, near, gone] = await Promise.all(['calm', 'near', 'gone'].map(fill));
  assert.ok(calm !== near && near === gone, `${[calm, near, gone]}`);
  await eventually(async () => assert.match(await page.locator('tr[data-key="calm"]').innerText(), /\$2\.40 of \$40\.00\s+6%; resets (1\s\w+|\w+\s1)/));
  await page.getByRole('button', { name: 'Change near' }).click();
  const form = page.locator('dialog[open]');
  await form.getByLabel('Monthly budget, in USD').fill('5');
  await form.getByLabel('Alert at, in percent').fill('75.5');
  await form.getByRole('button', { name: 'Save' }).click();
  await page.locator('tr[data-key="near"] [data-state="near"]', { hasText: '80%, nearly spent' }).waitFor();
  await eventually(async () => assert.ok(![calm, gone].includes(await fill('near'))));
  await page.getByRole('button', { name: 'Change near' }).click();
  await eventually(async () => assert.equal(await form.getByLabel('Alert at, in percent').inputValue(), '75.5'));
  await page.keyboard.press('Escape');
  await eventually(async () => assert.deepEqual((await page.locator('[data-alert]').allInnerTexts()).map((t) => /(near|gone) of acme/.exec(t)?.[1]).sort(), ['gone', 'near']));
  await wantAccessible(page, 'Keys with budgets');
  await page.evaluate(() => document.activeElement?.blur());
  await shot(page, 'admin-budgets');
  await page.evaluate(() => (location.hash = '#now'));
  await page.locator('section[aria-label="Budget alerts"]', { hasText: 'in the last day' }).waitFor();
  await page.closeClean();
});

inEveryLook('budgets can be read', async (options, name) => {
  const page = await openWith(keys.boss, '/admin#keys', 'tr[data-key="near"] [data-state]', options);
  await page.locator('[data-alert]').first().waitFor();
  await wantFit(page, `Keys with budgets, ${name}`);
  if (options.isMobile) await page.locator('tr[data-key="near"] [data-state]').evaluate((b) => b.scrollIntoView({ inline: 'center', block: 'center' }));
  await shot(page, `admin-budgets-${name}`);
  await page.closeClean();
});

test('the holder of a key is told that its budget is nearly spent', async () => {
  for (const [name, said] of [['near', /nearly spent: 80% of it\. Once it is, requests are refused until/], ['gone', /The budget of this key is spent\. Requests are refused until/]]) {
    const page = await openWith(keys[name], '/admin', '[data-state]');
    await eventually(async () => assert.match(await page.getByRole('status').first().innerText(), said));
    await wantAccessible(page, 'My usage with a budget');
    if (name === 'near') await shot(page, 'admin-mine-near');
    await page.closeClean();
  }
});
