// What the page tests share: a browser, a line to the server that can be cut,
// and the few things one does on the chat page.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect, createServer } from 'node:net';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { asOwner, crash, serveParley } from '../server.mjs';

export { asOwner, crash };

const waitMs = 60_000;

/** It is required and not imported: to import it, node reads all of it once more for what it exports. */
export const { chromium } = createRequire(import.meta.url)('playwright-core');

/** The script of axe. It is read and not imported: it would be run here, too, which takes a third of a second. */
const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** A phone held upright. */
export const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

const every = {
  light: { colorScheme: 'light' },
  dark: { colorScheme: 'dark' },
  phone: { ...phone, colorScheme: 'light' },
  'phone-dark': { ...phone, colorScheme: 'dark' },
};

const two = ['light', 'phone-dark']; // each size and each theme once

/** Which of two looks a file of tests takes: always the same one, by its name. Its tests may build on each other. */
const turn = [...basename(process.argv[1])].reduce((sum, letter) => sum + letter.codePointAt(0), 1) % two.length;

/**
 * The looks that a page is tested in, by name: the options of a browser. Files of tests take one of two;
 * PARLEY_LOOKS=all has every one, and so do pictures.
 */
export const looks = process.env.PARLEY_LOOKS === 'all' || process.env.PARLEY_SHOTS ? every : { [two[turn]]: every[two[turn]] };

/** The name of the first of them, in which a test does what it does once. */
export const [firstLook] = Object.keys(looks);

/**
 * Tests a body once for each look: on a desktop and on a phone, light and dark. All use the server and the browser of
 * their file. The body is called with the options of the browser, the name of the look and the context of its test.
 */
export function inEveryLook(what, body) {
  for (const [name, options] of Object.entries(looks)) test(`${what}, ${name}`, (t) => body(options, name, t));
}

/**
 * A server, a browser, and between them a line whose connections can be cut.
 * One thread and no guessing: answers are slow enough to be interrupted.
 */
export function openPages(...flags) {
  const server = serveParley('--threads', '1', '--speculate', 'off', ...flags);
  const rig = { server, url: '', browser: null, line: null };
  before(async () => {
    rig.line = await openLine(() => new URL(server.url).port);
    rig.url = rig.line.url;
    rig.browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
  });
  after(async () => {
    await rig.browser?.close();
    await rig.line?.close();
  });
  return rig;
}

/** Carries connections to a port. Down, it cuts those it has and takes no more. */
async function openLine(port) {
  const sockets = new Set();
  let up = true;
  const listener = createServer((from) => {
    if (!up) {
      from.destroy();
      return;
    }
    const to = connect(Number(port()), '127.0.0.1');
    for (const [one, other] of [[from, to], [to, from]]) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const cut = () => sockets.forEach((s) => s.destroy());
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    cut,
    down() {
      up = false;
      cut();
    },
    up() {
      up = true;
    },
    async close() {
      cut();
      listener.close();
      await once(listener, 'close');
    },
  };
}

/**
 * A page of a fresh browser profile. It must log no error, break no policy and
 * ask nobody but its own origin; close says so. PARLEY_SLOW=4 has its scripts run at a quarter of their speed.
 */
export async function openPage(rig, options = {}, path = '/', ready = '#app[data-alive] #prompt') {
  const context = await rig.browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(waitMs);
  const faults = [];
  context.on('console', (m) => m.type() === 'error' && !/Failed to load resource|ERR_/.test(m.text()) && faults.push(m.text()));
  context.on('weberror', (e) => faults.push(String(e.error())));
  context.on('request', (r) => new URL(r.url()).origin !== rig.url && !r.url().startsWith('blob:') && faults.push(`asked ${r.url()}`));
  const page = await context.newPage();
  const rate = Number(process.env.PARLEY_SLOW);
  if (rate > 1) await (await context.newCDPSession(page)).send('Emulation.setCPUThrottlingRate', { rate });
  await page.goto(withToken(rig, path));
  await page.waitForSelector(ready);
  page.closeClean = async () => {
    await context.close();
    assert.deepEqual(faults, []);
  };
  return page;
}

/** Wants an assertion to hold within the time that everything has: what an action does to a page is seen after a while. */
export async function eventually(wanted) {
  for (const end = Date.now() + waitMs; ; await pause(50)) {
    try {
      return await wanted();
    } catch (err) {
      if (Date.now() > end) throw err;
    }
  }
}

/** Waits until what a selector names has the focus, so that keys go there. */
export async function focusOn(page, selector) {
  await page.waitForFunction((s) => document.activeElement?.matches(s), selector);
}

/** The address of a page, with the token that a server without keys has printed. */
export function withToken(rig, path) {
  const address = new URL(path, rig.url);
  if (rig.server?.token) address.searchParams.set('token', rig.server.token);
  return address.href;
}

/** A page of a browser that has signed in with a key. */
export async function openWith(rig, secret, path, ready, options = {}) {
  const page = await openPage(rig, options, path.startsWith('/admin') ? '/admin' : '/', 'header');
  await page.waitForFunction(() => !location.search); // the token is used up
  const status = await page.evaluate(async (key) => {
    const where = location.pathname.startsWith('/admin') ? '/admin/session' : '/session';
    return (await fetch(where, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ key }) })).status;
  }, secret);
  assert.equal(status, 200);
  await page.goto('about:blank');
  await page.goto(rig.url + path);
  await page.waitForSelector(ready);
  return page;
}

/**
 * Has the server write for as long as it is let: past the model's own end, and
 * with attention sinks past its context. Machines are fast, so an answer that a
 * test wants to interrupt must have no end of its own.
 */
export const endless = { ignore_eos: true, attention_sink_tokens: 64, max_tokens: 1_000_000 };

/** Has the answers of a page go on until they are stopped, or as members of the request say. */
export async function answerAtLength(page, members = endless) {
  await page.route('**/messages', async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    return route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ...members }) });
  });
}

/** Sends a message: with Enter, or on a phone, where Enter makes a line, with the button. */
export async function say(page, text) {
  await page.fill('#prompt', text);
  if (await page.evaluate(() => matchMedia('(pointer: coarse)').matches)) await page.tap('form:has(#prompt) [type=submit]');
  else await page.press('#prompt', 'Enter');
}

/** Waits until an answer is being written and has so many characters. */
export async function writing(page, characters = 40) {
  await page.waitForFunction((n) => (document.querySelector('.live .markdown')?.textContent.length ?? 0) >= n, characters);
}

/** Waits until nothing is being written, and something was. */
export async function answered(page, answers = 1) {
  await page.waitForFunction((n) => !document.querySelector('.live') && document.querySelectorAll('article:not(.mine) .markdown').length >= n, answers);
}

export const lastAnswer = (page) => page.locator('article:not(.mine) .markdown').last().innerText();

/** The messages of the branch that the page shows, as the server has them. */
export async function kept(rig, page) {
  const id = new URL(page.url()).pathname.split('/').pop();
  const list = await (await fetch(`${rig.server.url}/v1/conversations/${id}/items?order=asc&limit=100`, { headers: asOwner(rig.server) })).json();
  return list.data.map((i) => ({ ...i, text: i.content.map((p) => p.text ?? '').join('') }));
}

/** Wants no finding of axe, whatever its weight. The headings of an answer are in the order that the model gave them. */
export async function wantAccessible(page, where) {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe);
  const findings = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    const ofModel = (rule, node) => rule === 'heading-order' && document.querySelector(node.target[0])?.closest('.markdown');
    return violations.flatMap(({ id, nodes }) => nodes.filter((n) => !ofModel(id, n)).map((n) => `${id}: ${n.html}`));
  });
  assert.deepEqual(findings, [], where);
}

/** Wants a page that has no finding of axe and is not wider than its window. */
export async function wantFit(page, where) {
  await wantAccessible(page, where);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where} is ${wide} pixels too wide`);
}

/** Leaves a picture where PARLEY_SHOTS says, if it does. */
export async function shot(page, name) {
  if (process.env.PARLEY_SHOTS) await page.screenshot({ path: join(process.env.PARLEY_SHOTS, `${name}.png`) });
}

/** A conversation that already says something, made through the interface. */
export async function makeConversation(rig, members) {
  const response = await fetch(`${rig.server.url}/v1/conversations`, { method: 'POST', headers: { 'content-type': 'application/json', ...asOwner(rig.server) }, body: JSON.stringify(members) });
  assert.equal(response.status, 200, await response.clone().text());
  return response.json();
}
