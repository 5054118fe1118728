// Keys alone: what Tab reaches is seen to have the focus, dialogs keep it and give it back, and Escape leaves them.
import assert from 'node:assert/strict';
import { eventually, focusOn, inEveryLook, makeConversation, openPage, openPages, shot, wantAccessible, wantFit } from './pages.mjs';

const rig = openPages();

/** What has the focus: a name, whether that can be seen, and where it is. */
const focused = (page) =>
  page.evaluate(() => {
    const at = document.activeElement;
    if (!at || at === document.body) return null;
    const style = getComputedStyle(at);
    const box = at.getBoundingClientRect();
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    // A field may show the focus by its border, and the box around the message by its own.
    const bordered = (of) => of && getComputedStyle(of).borderTopColor === getComputedStyle(document.documentElement).getPropertyValue('--accent');
    return {
      name: (at.getAttribute('aria-label') ?? at.labels?.[0]?.textContent ?? at.textContent ?? '').trim().slice(0, 60) || at.tagName,
      seen: outlined || style.boxShadow !== 'none' || bordered(at) || [...document.querySelectorAll(':focus-within')].some((e) => e !== document.body && (getComputedStyle(e).boxShadow !== 'none' || getComputedStyle(e).outlineStyle !== 'none')),
      visible: box.width > 0 && box.height > 0,
      inDialog: Boolean(at.closest('dialog[open]')),
      stamp: (at.dataset.stop ??= String(++window.stops || (window.stops = 1))),
    };
  });

/** Presses Tab until the focus comes round, and wants each stop to be seen. */
async function tour(page, where) {
  const stops = [];
  for (let n = 0; n < 200; n++) {
    await page.keyboard.press('Tab');
    const at = await focused(page);
    if (!at) continue;
    if (stops.some((s) => s.stamp === at.stamp)) break;
    stops.push(at);
    assert.ok(at.visible, `${where}: the focus is on ${at.name}, which is not shown`);
    assert.ok(at.seen, `${where}: nothing shows that ${at.name} has the focus`);
  }
  return stops.map((s) => s.name);
}

/** Opens a dialog with Enter on its button, wants the focus to stay in it, and Escape to give it back. */
async function wantTrap(page, button, title) {
  const opener = page.locator(button).first();
  await opener.focus();
  await page.keyboard.press('Enter');
  await page.locator('dialog[open] h2', { hasText: title }).waitFor();
  await wantAccessible(page, title);
  await eventually(async () => assert.ok((await focused(page))?.inDialog, `${title} opens without the focus in it`));
  for (const key of ['Tab', 'Shift+Tab']) {
    const stops = new Map();
    for (let n = 0; n < 100; n++) {
      await page.keyboard.press(key);
      const at = await focused(page);
      if (!at) continue; // the browser's own controls
      assert.ok(at.inDialog, `${key} leaves ${title} for ${at.name}`);
      assert.ok(at.seen, `${title}: nothing shows that ${at.name} has the focus`);
      if (stops.has(at.stamp)) break;
      stops.set(at.stamp, at.name);
    }
    assert.ok([...stops.values()].includes('Close'), `${key} does not reach Close in ${title}: ${[...stops.values()]}`);
  }
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog[open]', { state: 'detached' });
  await eventually(async () => assert.ok(await opener.evaluate((e) => e === document.activeElement), `${title} does not give the focus back`));
}

inEveryLook('Tab goes through the chat in the order it is read', async (options, name) => {
  const made = await makeConversation(rig, {
    title: `Of keys, ${name}`,
    items: [
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Which keys?' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'All of them. See `Tab`.\n\n```go\nkeys()\n```' }] },
    ],
  });
  const page = await openPage(rig, options, `/c/${made.id}`);
  await page.getByText('All of them.').waitFor();
  await page.getByRole('button', { name: 'Model: polly' }).waitFor();
  await page.locator('body').click({ position: { x: 1, y: 1 } });
  const stops = await tour(page, `chat, ${name}`);
  const order = ['Model: polly', 'Settings', 'Conversation', 'Copy', 'Edit', 'Answer again', 'Message'];
  let last = -1;
  for (const want of order) {
    const at = stops.findIndex((s, i) => i > last && s.startsWith(want));
    assert.ok(at > last, `${want} is not reached after ${stops[last] ?? 'the beginning'}: ${stops.join(' | ')}`);
    last = at;
  }
  if (!options.isMobile) assert.equal(stops.filter((s) => ['Light', 'Dark', 'System theme'].includes(s)).length, 1, 'the theme is one stop');
  await wantTrap(page, 'button[aria-label="Settings"]', 'Settings');
  if (options.isMobile) await page.getByLabel('Show the list of chats').click();
  await wantTrap(page, 'button[aria-label="Shortcuts and help"]', 'Shortcuts and help');
  await page.closeClean();
});

inEveryLook('the admin page is accessible in every part, and by keys', async (options, name) => {
  const page = await openPage(rig, options, '/admin', 'main :is(.card, .scroll)');
  for (const section of ['now', 'fleet', 'requests', 'models', 'usage', 'keys', 'people', 'safety', 'audit', 'server', 'plan']) {
    await page.evaluate((s) => (location.hash = s), section);
    await page.locator(`header nav a[aria-current][href="#${section}"]`).waitFor();
    await page.waitForFunction(() => {
      const [all, chosen] = ['header nav', 'header nav [aria-current]'].map((s) => document.querySelector(s).getBoundingClientRect());
      return chosen.left >= all.left - 1 && chosen.right <= all.right + 1; // it is in view, also where not all of them are
    });
    await page.locator('main :is(.card, .scroll)').first().waitFor();
    await wantFit(page, `${section}, ${name}`);
    if (name === 'light') {
      const stops = await tour(page, section);
      assert.ok(stops.length > 5, `${section}: ${stops}`);
    }
    if (section === 'keys' && options.colorScheme === 'light') {
      await wantTrap(page, 'button:has-text("New key")', 'A new key');
      await wantTrap(page, 'button:has-text("New organisation")', 'A new organisation');
    }
  }
  await page.closeClean();
});

let herons;

/** Two chats of herons, of which the first has many. Returns the second. */
async function makeHerons() {
  const says = (text, i) => ({ type: 'message', role: i % 2 ? 'assistant' : 'user', content: [{ type: i % 2 ? 'output_text' : 'input_text', text }] });
  await makeConversation(rig, { title: 'Of herons', items: Array.from({ length: 12 }, (_, i) => says(`heron **number** ${i}`, i)) });
  return makeConversation(rig, { title: 'A pond', items: ['Who stands there?', 'A heron, waiting.'].map(says) });
}

inEveryLook('search is grouped by conversation, and arrows go through what was found', async (options, name) => {
  const short = await (herons ??= makeHerons());
  const page = await openPage(rig, options);
  await page.keyboard.press('Control+k');
  await focusOn(page, '[type=search]');
  await page.keyboard.type('heron');
  await page.getByText('Found in 2 chats').waitFor();
  const chats = page.locator('.found');
  await eventually(async () => assert.equal(await chats.count(), 2));
  await eventually(async () => assert.match(await chats.nth(0).innerText(), /^A pond\nA heron, waiting\.$/));
  await eventually(async () => assert.match(await chats.nth(1).innerText(), /^Of herons\nheron number 11\nheron number 10\nheron number 9\n+and 10 more in this chat$/));
  await wantFit(page, `what was found, ${name}`);
  await shot(page, `chat-found-${name}`);
  const at = () => page.evaluate(() => document.activeElement?.textContent);
  for (const [key, want] of [['ArrowDown', /^A pond/], ['ArrowDown', /^Of herons/], ['ArrowDown', /number 10/], ['End', /number 9/], ['Home', /^A pond/]]) {
    await page.keyboard.press(key);
    await eventually(async () => assert.match(await at(), want, key));
  }
  await page.keyboard.press('ArrowUp');
  await focusOn(page, '[type=search]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByText('A heron, waiting.').last().waitFor();
  await eventually(async () => assert.ok(page.url().endsWith(short.id)));
  await page.closeClean();
});
