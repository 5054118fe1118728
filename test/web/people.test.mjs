// The first account, passkeys, and the People page of administrators.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answered, inEveryLook, openPage, openPages, say, shot, wantAccessible } from './pages.mjs';

const rig = openPages();
const password = 'correct horse battery';
const signInOf = (page) => page.locator('dialog[open]', { hasText: 'Sign in' });

async function signIn(page, email) {
  await signInOf(page).getByLabel('Email').fill(email);
  await signInOf(page).getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
}

test('the first account is made on the page, and keeps the chats', async () => {
  const page = await openPage(rig);
  await say(page, 'Hello!');
  await answered(page);
  await page.click('[aria-label="Settings"]');
  await page.getByRole('button', { name: 'Create an account' }).click();
  const dialog = page.locator('dialog[open]', { hasText: 'Create the first account' });
  await dialog.getByLabel('Email').fill('boss@example.com');
  await wantAccessible(page, 'the first account');
  await dialog.getByLabel('Your name').fill('Boss');
  await dialog.getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'hidden' });
  const account = await page.evaluate(async () => (await fetch('/account')).json());
  assert.equal(account.role, 'server-admin');
  await page.reload();
  await answered(page); // the chat of before is theirs
  await page.closeClean();
});

test('a passkey is added, named, and signs in without a password', async () => {
  const site = { ...rig, server: {}, url: rig.url.replace('127.0.0.1', 'localhost') };
  const page = await openPage(site);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  await devtools.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true },
  });
  await signIn(page, 'boss@example.com');
  await signInOf(page).waitFor({ state: 'hidden' });
  const openAccount = async () => {
    await page.click('[aria-label="Settings"]');
    await page.getByRole('button', { name: 'Account' }).click();
  };
  await openAccount();
  const account = page.locator('dialog[open]', { hasText: 'Signed-in browsers' });
  await account.getByLabel('Name of a new passkey').fill('phone');
  await account.getByLabel('Your password, to add a passkey').fill(password);
  await page.keyboard.press('Enter');
  await account.getByRole('button', { name: 'Remove the passkey phone' }).waitFor();
  page.once('dialog', (question) => question.accept('my phone'));
  await account.getByRole('button', { name: 'Rename the passkey phone' }).click();
  await account.getByRole('button', { name: 'Remove the passkey my phone' }).waitFor();
  await wantAccessible(page, 'passkeys');
  await account.getByRole('button', { name: 'Sign out everywhere' }).click();
  await signInOf(page).getByRole('button', { name: 'Use a passkey' }).click();
  await signInOf(page).waitFor({ state: 'hidden' });
  assert.equal(await page.evaluate(async () => (await (await fetch('/account')).json()).email), 'boss@example.com');
  await openAccount();
  page.once('dialog', (question) => question.accept());
  await account.getByRole('button', { name: 'Remove the passkey my phone' }).click();
  await account.getByRole('button', { name: 'Remove the passkey my phone' }).waitFor({ state: 'hidden' });
  await account.getByRole('button', { name: 'Sign out everywhere' }).click();
  await signInOf(page).getByRole('button', { name: 'Use a passkey' }).click();
  await signInOf(page).getByRole('alert').waitFor();
  await page.closeClean();
});

inEveryLook('people are invited, changed, disabled and removed', async (options, name) => {
  const email = `ann-${name}@example.com`;
  const page = await openPage({ ...rig, server: {} }, options, '/admin', 'dialog[open]');
  await signIn(page, 'boss@example.com');
  await page.getByRole('link', { name: 'People' }).click();
  const own = page.locator('tr[data-person="boss@example.com"]');
  await own.waitFor();
  assert.equal(await own.getByRole('button', { name: /Disable|Remove/ }).count(), 0); // nobody removes themselves
  await page.getByRole('button', { name: 'Invite' }).click();
  const dialog = page.locator('dialog[open]');
  await dialog.getByLabel('Email').fill(email);
  await dialog.getByLabel(/^Organisation/).fill('acme');
  await wantAccessible(page, `an invitation, ${name}`);
  await page.keyboard.press('Enter');
  const link = new URL(await dialog.getByLabel('Link of the invitation').inputValue());
  await page.keyboard.press('Escape');
  await page.locator(`tr[data-invite="${email}"]`).waitFor();
  const status = await page.evaluate(
    async ([token, secret]) => (await fetch('/invitation/accept', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ token, name: 'Ann', password: secret }) })).status,
    [link.hash.split('=')[1], password],
  );
  assert.equal(status, 200);
  await page.reload();
  const row = page.locator(`tr[data-person="${email}"]`);
  await row.waitFor();
  await wantAccessible(page, `people, ${name}`);
  await shot(page, `admin-people-${name}`);
  await row.getByRole('button', { name: `Change ${email}` }).click();
  await dialog.getByLabel('Role').selectOption('org-admin');
  await dialog.getByLabel('Tier').selectOption('pro');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await row.getByText('Organisation admin').waitFor();
  await row.getByRole('button', { name: 'Disable' }).click();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  assert.equal(await row.getByText('disabled').count(), 0); // it asks first
  await row.getByRole('button', { name: 'Disable' }).click();
  await dialog.getByRole('button', { name: 'Disable' }).click();
  await row.getByText('disabled').waitFor();
  await row.getByRole('button', { name: 'Remove' }).click();
  await dialog.getByText(/cannot be undone/).waitFor();
  await dialog.getByRole('button', { name: 'Remove' }).click();
  await row.waitFor({ state: 'detached' });
  await page.closeClean();
});
