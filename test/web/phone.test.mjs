// A slow phone: the page can be used before its script is there, and little has to come over the line for that. How long
// it takes is measured by make bench-page, on a machine that does nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answered, eventually, focusOn, kept, openPage, openPages, phone, withToken } from './pages.mjs';

const rig = openPages();

// What TCP sends before it hears from the other side: ten segments.
const firstFlightBytes = 14_600;
const scriptBytesMax = 40_000;

/** Keeps the page's scripts back until they are let through. */
async function holdScripts(context) {
  let letThrough;
  const held = new Promise((resolve) => (letThrough = resolve));
  await context.route('**/assets/*.js', async (route) => {
    await held;
    await route.continue();
  });
  return letThrough;
}

async function openHeld(options, path = '/') {
  const context = await rig.browser.newContext(options);
  const letThrough = await holdScripts(context);
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (e) => faults.push(String(e)));
  page.on('console', (m) => m.type() === 'error' && faults.push(m.text()));
  await page.goto(withToken(rig, path));
  return { context, page, letThrough, faults };
}

/** Waits until nothing moves that will stand still. */
const atRest = (page) => page.evaluate(() => Promise.all(document.getAnimations().filter((a) => a.effect.getComputedTiming().endTime < Infinity).map((a) => a.finished.catch(() => {}))).then(() => {}));

const isAlive = (page) => page.waitForSelector('#app[data-alive]', { state: 'attached' });

test('the first packets are enough to type, and the rest is small', async (t) => {
  const sizes = [];
  const html = await (await fetch(rig.server.url, { headers: { accept: 'text/html' } })).text();
  for (const path of ['/', ...new Set(html.match(/\/assets\/[^"]+\.js/g))]) {
    const response = await fetch(rig.server.url + path, { headers: { accept: 'text/html', 'accept-encoding': 'br' } });
    assert.equal(response.headers.get('content-encoding'), 'br', path);
    sizes.push({ path, bytes: Number(response.headers.get('content-length')) });
  }
  t.diagnostic(sizes.map((s) => `${s.path} ${s.bytes}`).join(', '));
  assert.ok(sizes[0].bytes + 1500 < firstFlightBytes, 'the page and its headers come at once');
  assert.ok(sizes.slice(1).reduce((sum, s) => sum + s.bytes, 0) < scriptBytesMax);
});

test('what is typed before the script is there stays in its place, with the caret', async () => {
  const { context, page, letThrough, faults } = await openHeld(phone);
  await page.tap('#prompt');
  await focusOn(page, '#prompt');
  await page.keyboard.type('Hello ther');
  await page.keyboard.press('ArrowLeft');
  await page.$eval('#prompt', (box) => (box.sameAsBefore = true));
  assert.equal(await page.$eval('#app', (app) => 'alive' in app.dataset), false);
  letThrough();
  await isAlive(page);
  assert.deepEqual(await page.$eval('#prompt', (box) => [box.value, box.selectionStart, box.sameAsBefore, document.activeElement === box]), ['Hello ther', 9, true, true]);
  await page.keyboard.press('End');
  await page.keyboard.type('e');
  await eventually(async () => assert.equal(await page.inputValue('#prompt'), 'Hello there'));
  await page.reload();
  await eventually(async () => assert.equal(await page.inputValue('#prompt'), 'Hello there'));
  await context.close();
  assert.deepEqual(faults, []);
});

test('what is sent before the script is there is sent, once', async () => {
  for (const [options, send] of [[phone, (page) => page.tap('[type=submit]')], [{}, (page) => page.keyboard.press('Enter')]]) {
    const { context, page, letThrough, faults } = await openHeld(options);
    assert.equal(await page.isDisabled('[type=submit]'), true);
    if (options.hasTouch) await page.tap('#prompt');
    await focusOn(page, '#prompt');
    await page.keyboard.type('Hello there');
    await send(page);
    await send(page);
    letThrough();
    await answered(page);
    assert.deepEqual((await kept(rig, page)).map((i) => i.role), ['user', 'assistant']);
    assert.equal((await kept(rig, page))[0].text, 'Hello there');
    await eventually(async () => assert.equal(await page.inputValue('#prompt'), ''));
    await context.close();
    assert.deepEqual(faults, []);
  }
});

test('a button that is pressed before the script is there does what it does, and an example fills the box', async () => {
  const { context, page, letThrough, faults } = await openHeld({});
  await page.click('text=Small talk');
  await eventually(async () => assert.match(await page.inputValue('#prompt'), /^Hello! Who are you/));
  await page.click('[aria-label=Settings]');
  letThrough();
  await page.waitForSelector('dialog[open] >> text=System prompt');
  await eventually(async () => assert.match(await page.inputValue('#prompt'), /^Hello! Who are you/));
  await context.close();
  assert.deepEqual(faults, []);
});

test('before the script is there the page looks as it will', async () => {
  for (const options of [phone, { viewport: { width: 1280, height: 800 } }]) {
    const { context, page, letThrough } = await openHeld(options);
    const places = async () => {
      await atRest(page);
      return page.$$eval('#prompt, [type=submit], .greeting h2, main', (all) => all.map((e) => [Math.round(e.getBoundingClientRect().x), Math.round(e.getBoundingClientRect().bottom)]));
    };
    const before = await places();
    letThrough();
    await isAlive(page);
    await page.waitForSelector('#app[data-alive]');
    await eventually(async () => {
      const after = await places();
      for (const [i, [x, y]] of before.entries()) assert.ok(Math.abs(x - after[i][0]) <= 1 && Math.abs(y - after[i][1]) <= 12, `${JSON.stringify(before)} became ${JSON.stringify(after)}`);
    });
    await context.close();
  }
});

test('a conversation does not greet while it is loaded', async () => {
  const page = await openPage(rig);
  await page.fill('#prompt', 'Hello');
  await page.press('#prompt', 'Enter');
  await answered(page);
  const { pathname } = new URL(page.url());
  await page.closeClean();
  const { context, page: again, letThrough } = await openHeld({}, pathname);
  assert.equal(await again.$$eval('.greeting, [aria-label=Examples], main.fresh', (all) => all.length), 0);
  letThrough();
  await isAlive(again);
  assert.equal(await again.$$eval('.greeting, [aria-label=Examples], main.fresh', (all) => all.length), 0);
  await context.close();
});
