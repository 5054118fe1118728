// Signing in at an issuer of OpenID Connect. With PARLEY_DEX it is dex.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, test } from 'node:test';
import { signInAt, startIssuer } from './issuer.mjs';
import { eventually, firstLook, inEveryLook, looks, openPage, openPages, shot, wantAccessible, wantFit } from './pages.mjs';

/** A port that nothing listens on. */
async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}

const port = await freePort();
const issuer = `http://127.0.0.1:${port}/issuer`;
const secret = 'not-much-of-a-secret';
const rig = openPages('--oidc-issuer', issuer, '--oidc-client-id', 'parley', '--oidc-client-secret', secret, '--oidc-name', 'Example', '--oidc-domains', 'example.com', '--oidc-groups', 'staff.organisation=acme', '--oidc-groups', 'staff.role=org-admin');
const password = 'correct horse battery';
const waitMs = 60_000;

let endIssuer;
after(() => endIssuer?.());

const people = [
  { email: 'ann@example.com', name: 'Ann', userID: '1', emailVerified: true, groups: ['staff'] },
  { email: 'eve@example.com', name: 'Eve', userID: '2', emailVerified: true, groups: [] },
  { email: 'kim@example.com', name: 'Kim', userID: '4', emailVerified: true, groups: ['/eng/gpu'] },
  { email: 'bob@example.com', name: 'Bob', userID: '3', emailVerified: false, groups: ['staff'] },
];

/** A page that may leave its origin. */
async function open(path = '/', options = {}) {
  const context = await rig.browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(waitMs);
  const page = await context.newPage();
  await page.goto(rig.url + path);
  return page;
}

const dialogOf = (page) => page.locator('dialog[open]', { hasText: 'Sign in' });

test('an issuer that is down is named, and passwords go on', async () => {
  const made = await fetch(`${rig.server.url}/v1/organization/users`, {
    method: 'POST',
    headers: { authorization: `Bearer ${rig.server.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ email: 'boss@example.com', name: 'Boss', password }),
  });
  assert.equal((await made.json()).role, 'server-admin'); // the first account
  const page = await openPage({ ...rig, server: {} });
  const dialog = dialogOf(page);
  await dialog.getByRole('button', { name: 'Sign in with Example' }).click();
  await dialog.getByText(/Example does not answer/).waitFor();
  await wantAccessible(page, 'signing in with an issuer');
  await shot(page, 'chat-sign-in-issuer-light');
  await dialog.getByLabel('Email').fill('boss@example.com');
  await dialog.getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'hidden' });
  await page.closeClean();
});

test('the issuer starts', async () => {
  endIssuer = await startIssuer(issuer, { id: 'parley', secret, redirect: `${rig.url}/session/callback` }, people);
});

inEveryLook('a person of a group signs in at the issuer, and others are told why not', async (options, name) => {
  const page = await open('/c/conv_none', options);
  await dialogOf(page).getByRole('button', { name: 'Sign in with Example' }).click();
  await signInAt(page, issuer, 'ann@example.com');
  await page.waitForURL(`${rig.url}/c/conv_none`);
  await page.waitForSelector('#app[data-alive] #prompt');
  const account = await page.evaluate(async () => (await fetch('/account')).json());
  assert.deepEqual([account.email, account.organization, account.role, account.has_password], ['ann@example.com', 'acme', 'org-admin', false]);
  const cookies = await page.context().cookies();
  const session = cookies.find((c) => c.name.startsWith('parley_chat_'));
  assert.deepEqual([session?.sameSite, session?.httpOnly], ['Strict', true]);
  assert.ok(!cookies.some((c) => c.name.startsWith('parley_state_')));
  await page.reload();
  assert.equal(await page.evaluate(async () => (await fetch('/account')).status), 200); // the session holds
  await page.goto(`${rig.url}/session/callback?code=stale&state=stale`);
  await page.getByText('You are not signed in').waitFor();
  await wantFit(page, `a sign-in that was refused, ${name}`);
  await shot(page, `chat-refused-sign-in-${name}`);
  await page.getByRole('link', { name: 'Back to sign-in' }).click();
  await page.waitForURL(`${rig.url}/`);
  await page.context().close();

  for (const [email, told] of [
    ['eve@example.com', /You have no account on this server/],
    ['bob@example.com', /has not verified your email address/],
  ]) {
    const other = await open('/', options);
    await dialogOf(other).getByRole('button', { name: 'Sign in with Example' }).click();
    await signInAt(other, issuer, email);
    await other.getByText(told).waitFor();
    assert.equal((await other.context().request.get(`${rig.url}/account`)).status(), 401); // the page itself may fetch nothing
    await other.context().close();
  }
});

test('an organisation admin by group sees the people of the organisation', async () => {
  const page = await open('/admin');
  await dialogOf(page).getByRole('button', { name: 'Sign in with Example' }).click();
  await signInAt(page, issuer, 'ann@example.com');
  await page.waitForURL(`${rig.url}/admin`);
  await page.getByRole('link', { name: 'People' }).click();
  await page.locator('tr[data-person="ann@example.com"]').waitFor();
  await eventually(async () => assert.equal(await page.locator('tr[data-person]').count(), 1)); // not the boss, of another organisation
  await page.context().close();
});

test('what a group gives is set on the People page, and given at the next sign-in', async () => {
  const kim = async () => {
    const page = await open();
    await dialogOf(page).getByRole('button', { name: 'Sign in with Example' }).click();
    await signInAt(page, issuer, 'kim@example.com');
    return page;
  };
  const stranger = await kim();
  await stranger.getByText(/You have no account on this server/).waitFor();
  await stranger.context().close();

  for (const [name, options] of Object.entries(looks)) {
    const page = await openPage({ ...rig, server: {} }, options, '/admin', 'header');
    const dialog = dialogOf(page);
    await dialog.getByLabel('Email').fill('boss@example.com');
    await dialog.getByLabel('Password').fill(password);
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'hidden' });
    await page.evaluate(() => (location.hash = 'people'));
    await page.locator('tr[data-group="staff"]', { hasText: 'set in the configuration' }).waitFor();
    if (name === firstLook) {
      await page.getByRole('button', { name: 'Add a group' }).click();
      const form = page.locator('dialog[open]');
      await form.getByLabel('Name, as Example has it').fill('/eng/gpu');
      await form.getByRole('button', { name: 'Save' }).click();
      await form.getByRole('alert').filter({ hasText: 'Give the group an organisation' }).waitFor();
      await form.getByRole('textbox', { name: 'Organisation' }).fill('acme');
      await form.getByLabel('Tier').selectOption('pro');
      await form.getByRole('textbox', { name: 'Models' }).fill('polly');
      await wantAccessible(page, 'a new group');
      await form.getByRole('button', { name: 'Save' }).click();
    }
    const row = page.locator('tr[data-group="/eng/gpu"]');
    await row.waitFor();
    await eventually(async () => assert.match(await row.innerText(), /\/eng\/gpu\s+acme\s+–\s+pro\s+polly/));
    await wantFit(page, `groups, ${name}`);
    await shot(page, `admin-groups-${name}`);
    await page.closeClean();
  }

  const member = await kim();
  await member.waitForSelector('#app[data-alive] #prompt');
  const account = await member.evaluate(async () => (await fetch('/account')).json());
  assert.deepEqual([account.organization, account.role, account.tier, account.models], ['acme', 'member', 'pro', ['polly']]);
  assert.deepEqual(await member.evaluate(async () => (await (await fetch('/v1/models')).json()).data.map((m) => m.id)), ['polly']);
  await member.context().close();
});
