// People with accounts: from an invitation to a chat, the page of the account, and signing in and out.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answered, eventually, firstLook, inEveryLook, looks, openPage, openPages, say, shot, wantAccessible, wantFit } from './pages.mjs';

const rig = openPages();
const password = 'correct horse battery';
/** The server wants no token once there is an account, so pages are opened without one. */
const open = (options = {}, path = '/') => openPage({ ...rig, server: {} }, options, path);

/** Asks the server as a program does. */
async function ask(path, body, secret = rig.server.token) {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
  const answer = await fetch(rig.server.url + path, body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers });
  assert.equal(answer.status, 200, path);
  return answer.json();
}

const signInOf = (page) => page.locator('dialog[open]', { hasText: 'Sign in' });

async function signIn(page, email, secret) {
  const dialog = signInOf(page);
  await dialog.getByLabel('Email').fill(email);
  await dialog.getByLabel('Password').fill(secret);
  await page.keyboard.press('Enter');
}

/** The paths of invitations, by address. All are made before there is an account: then the token of the server is of no use. */
const invitations = {};
const emailOf = (name) => (name === firstLook ? 'ann@example.com' : `ann-${name}@example.com`);

test('people are invited', async () => {
  for (const email of Object.keys(looks).map(emailOf)) invitations[email] = (await ask('/v1/organization/invites', { email, organization: 'acme' })).path;
  await ask('/v1/organization/users', { email: 'boss@example.com', name: 'Boss', password, role: 'server-admin' });
});

inEveryLook('an invitation leads to a chat', async (options, name) => {
  const email = emailOf(name);
  const page = await open(options, invitations[email]);
  const dialog = page.locator('dialog[open]', { hasText: 'Welcome to Parley' });
  await dialog.getByLabel('Your name').waitFor();
  await eventually(async () => assert.equal(await dialog.getByLabel('Email').inputValue(), email));
  await eventually(async () => assert.ok(!page.url().includes('pi-'))); // the token does not stay in the address
  assert.equal(await page.locator('dialog[open]').count(), 1); // one dialog at a time
  await wantFit(page, `an invitation, ${name}`);
  await shot(page, `chat-invitation-${name}`);
  await dialog.getByLabel('Your name').fill('Ann');
  await dialog.getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'hidden' });
  await say(page, 'Hello!');
  await answered(page);
  await page.reload();
  await answered(page); // the session holds
  await page.closeClean();

  const late = await open(options, invitations[email]);
  await late.locator('dialog[open]').getByText(/was used already/).waitFor();
  await late.closeClean();
});

inEveryLook('one signs in, sees the account, and signs out', async (options, name) => {
  const page = await open(options);
  const dialog = signInOf(page);
  await dialog.getByLabel('Email').waitFor();
  assert.equal(await dialog.getByRole('alert').count(), 0);
  await eventually(async () => assert.ok(await dialog.getByLabel('Email').evaluate((e) => e === document.activeElement))); // one can type at once
  await wantAccessible(page, `signing in, ${name}`);
  await shot(page, `chat-sign-in-${name}`);
  await signIn(page, 'ann@example.com', 'not her password');
  await dialog.getByText(/email address or the password is wrong/).waitFor();
  await signIn(page, 'ANN@example.com', password);
  await dialog.waitFor({ state: 'hidden' });

  await page.click('[aria-label="Settings"]');
  await page.locator('dialog[open] >> text=Signed in as Ann (ann@example.com)').waitFor();
  await page.getByRole('button', { name: 'Account' }).click();
  const account = page.locator('dialog[open]', { hasText: 'Signed-in browsers' });
  await account.getByText('This browser').waitFor();
  await account.getByLabel('Name of a new key').fill(`laptop ${name}`);
  await page.keyboard.press('Enter');
  const key = await account.getByLabel('New API key').inputValue();
  await wantAccessible(page, `the account, ${name}`);
  await shot(page, `chat-account-${name}`);
  const models = await ask('/v1/models', null, key);
  assert.ok(models.data.length > 0);
  page.once('dialog', (question) => question.accept());
  await account.getByRole('button', { name: `Delete laptop ${name}` }).click();
  await account.getByRole('button', { name: `Delete laptop ${name}` }).waitFor({ state: 'hidden' });
  assert.equal((await fetch(`${rig.server.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status, 401);

  const other = await open();
  await signIn(other, 'ann@example.com', password);
  await signInOf(other).waitFor({ state: 'hidden' });
  await account.getByRole('button', { name: 'Sign out everywhere' }).click();
  await signInOf(page).getByLabel('Email').waitFor();
  await eventually(async () => assert.equal(await other.evaluate(async () => (await fetch('/account')).status), 401));
  await eventually(async () => assert.equal(await page.locator('nav li').count(), 0));
  await other.closeClean();
  await page.closeClean();
});

test('the admin page has a session of its own, for server admins', async () => {
  const page = await openPage({ ...rig, server: {} }, {}, '/admin', 'dialog[open]');
  await signIn(page, 'boss@example.com', password);
  await page.getByText('live', { exact: true }).waitFor();
  assert.equal(await page.evaluate(async () => (await fetch('/v1/conversations')).status), 401);
  await page.closeClean();
});

test('an account is deleted with what it has stored', async () => {
  const page = await open();
  await signIn(page, 'ann@example.com', password);
  await page.click('[aria-label="Settings"]');
  await page.getByRole('button', { name: 'Account' }).click();
  const account = page.locator('dialog[open]', { hasText: 'Signed-in browsers' });
  const [download] = await Promise.all([page.waitForEvent('download'), account.getByRole('link', { name: 'Download all my data' }).click()]);
  assert.equal(download.suggestedFilename(), 'parley-account.zip');
  await account.getByRole('button', { name: 'Delete account…' }).click();
  await account.getByLabel(/to confirm/).fill('ann@example.com');
  await account.locator('form', { hasText: 'cannot be undone' }).getByLabel('Password').fill(password);
  await account.getByRole('button', { name: 'Delete my account' }).click();
  await signInOf(page).getByLabel('Email').waitFor();
  await signIn(page, 'ann@example.com', password);
  await signInOf(page).getByText(/is wrong/).waitFor();
  await page.closeClean();
});
