// What groups of an issuer give is kept in PostgreSQL and shared: set on the People page of one gateway, it is shown and
// taken away on that of another. PARLEY_TEST_POSTGRES names the database.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { start, stop } from '../server.mjs';
import { eventually, inEveryLook, openPage, openPages, shot, wantFit } from './pages.mjs';

const store = process.env.PARLEY_TEST_POSTGRES;
const skip = store ? false : 'PARLEY_TEST_POSTGRES is not set: run it under test/postgres.sh';
const flags = store ? ['--store', store, '--oidc-issuer', 'http://127.0.0.1:9/dex', '--oidc-client-id', 'parley', '--oidc-client-secret', 'not-much-of-a-secret', '--oidc-name', 'Example'] : [];
const rig = openPages(...flags);
const second = { url: '', token: '', log: [], flags: ['--threads', '1', ...flags] };
const password = 'correct horse battery';

if (store) {
  before(() => start(second));
  after(() => stop(second));
}

/** The People page of a gateway, signed in as an administrator. */
async function openPeople(url, options) {
  const page = await openPage({ browser: rig.browser, url, server: {} }, options, '/admin', 'dialog[open]');
  const dialog = page.locator('dialog[open]', { hasText: 'Sign in' });
  await dialog.getByLabel('Email').fill('boss@example.com');
  await dialog.getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'hidden' });
  await page.evaluate(() => (location.hash = 'people'));
  await page.getByRole('button', { name: 'Add a group' }).waitFor();
  return page;
}

test('the first account is made in the database', { skip }, async () => {
  const made = await fetch(`${rig.server.url}/v1/organization/users`, {
    method: 'POST',
    headers: { authorization: `Bearer ${rig.server.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ email: 'boss@example.com', name: 'Boss', password }),
  });
  assert.equal((await made.json()).role, 'server-admin');
});

if (store) {
  inEveryLook('a group that is set on one gateway is shown by another, and gone from both when it is removed', async (options, name) => {
    const group = `/eng/${name}`;
    const page = await openPeople(rig.url, options);
    await page.getByRole('button', { name: 'Add a group' }).click();
    const form = page.locator('dialog[open]');
    await form.getByLabel('Name, as Example has it').fill(group);
    await form.getByRole('textbox', { name: 'Organisation' }).fill('acme');
    await form.getByLabel('Tier').selectOption('pro');
    await form.getByRole('textbox', { name: 'Models' }).fill('polly');
    await form.getByRole('button', { name: 'Save' }).click();
    const row = (p) => p.locator(`tr[data-group="${group}"]`);
    await row(page).waitFor();

    const other = await openPeople(second.url, options);
    await row(other).waitFor();
    await eventually(async () => assert.match(await row(other).innerText(), new RegExp(`${group}\\s+acme\\s+–\\s+pro\\s+polly`)));
    await wantFit(other, `groups of another gateway, ${name}`);
    await shot(other, `admin-groups-shared-${name}`);
    await other.getByRole('button', { name: `Remove the group ${group}`, exact: true }).click();
    await other.locator('dialog[open]').getByRole('button', { name: 'Remove', exact: true }).click();
    await row(other).waitFor({ state: 'detached' });
    await page.reload();
    await page.getByRole('button', { name: 'Add a group' }).waitFor();
    await row(page).waitFor({ state: 'detached' });
    for (const one of [page, other]) await one.closeClean();
  });
}
