// How the page looks and who can use it: Markdown, themes, phones, keys, axe.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerAtLength, answered, eventually, inEveryLook, kept, makeConversation, openPage, openPages, phone, say, shot, wantAccessible, wantFit, writing } from './pages.mjs';

const rig = openPages();

const shown = `**Compound interest** is interest on interest. A sum $P$ at the yearly rate $r$, paid $n$ times a year, becomes

$$A = P \\left(1 + \\frac{r}{n}\\right)^{nt}$$

| paid | n | 1,000 after ten years at 5% |
|---|--:|--:|
| yearly | 1 | 1,628.89 |
| monthly | 12 | 1,647.01 |

\`\`\`go
// grow returns what a sum becomes in so many years.
func grow(sum, rate float64, paid, years int) float64 {
	for range paid * years {
		sum += sum * rate / float64(paid)
	}
	return sum
}
\`\`\`

1. What is paid more often grows faster.
2. But never without bound: the limit is $P e^{rt}$.
`;

const conversation = {
  title: 'Interest on interest',
  model: 'polly',
  items: [
    { role: 'user', content: 'How does compound interest work?' },
    { role: 'assistant', content: [{ type: 'output_text', text: shown }] },
  ],
};

test('Markdown becomes tables, coloured code and formulas, and HTML stays text', async () => {
  const made = await makeConversation(rig, {
    title: 'What Markdown becomes',
    items: [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: [{ type: 'output_text', text: `${shown}\n<img src=x onerror="window.broken=1"><script>window.broken=1</script>\n\n[bad](javascript:alert(1)) and [good](https://example.com/)` }] },
    ],
  });
  const page = await openPage(rig, {}, `/c/${made.id}`);
  await page.waitForSelector('.markdown table');
  await eventually(async () => assert.equal(await page.locator('.markdown td').count(), 6));
  await eventually(async () => assert.ok((await page.locator('.markdown .code-keyword').count()) >= 3));
  await page.waitForSelector('.markdown math mfrac');
  assert.equal(await page.locator('.markdown img, .markdown script').count(), 0);
  assert.equal(await page.evaluate(() => window.broken), undefined);
  await eventually(async () => assert.deepEqual(await page.locator('.markdown a').evaluateAll((links) => links.map((a) => a.href)), ['https://example.com/']));
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.click('.markdown .copy');
  await page.waitForSelector('.copy:has-text("Copied")');
  await eventually(async () => assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^\/\/ grow returns[\s\S]*\}$/));
  await page.closeClean();
});

inEveryLook('the pages are accessible', async (options, name) => {
  const made = await makeConversation(rig, conversation);
  const page = await openPage(rig, options);
  await wantFit(page, 'empty');
  await shot(page, `chat-empty-${name}`);
  await page.goto(`${rig.url}/c/${made.id}`);
  await page.waitForSelector('.markdown math mfrac');
  await say(page, 'What is a cache?');
  await answered(page, 2);
  await page.waitForFunction(() => document.title.startsWith('Interest'));
  await wantFit(page, 'conversation');
  await page.locator('article details summary').last().click();
  await wantFit(page, 'timeline');
  await page.locator('article').nth(1).evaluate((e) => e.scrollIntoView());
  await shot(page, `chat-${name}`);
  await page.locator('article details').last().evaluate((e) => e.scrollIntoView({ block: 'end' }));
  await shot(page, `chat-timeline-${name}`);
  for (const title of options.isMobile ? ['Settings'] : ['Settings', 'Shortcuts and help']) {
    await page.locator(`button[aria-label="${title}"]`).click();
    await page.waitForSelector('dialog[open]');
    await wantFit(page, title);
    if (title === 'Settings') await shot(page, `chat-settings-${name}`);
    await page.keyboard.press('Escape');
    await page.waitForSelector('dialog[open]', { state: 'detached' });
  }
  await page.closeClean();
});

/** The colour of the page once it is another than before and changes no more. */
async function settled(page, before) {
  const colour = await page.waitForFunction((old) => {
    const now = getComputedStyle(document.body).backgroundColor;
    const stays = now === window.lastPaper;
    window.lastPaper = now;
    return stays && now !== old && now;
  }, before, { polling: 100 });
  return colour.jsonValue();
}

test('a chosen theme outlasts a reload', async () => {
  const page = await openPage(rig, { colorScheme: 'light' });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await page.click('[role=radio][aria-label="Dark"]');
  const dark = await settled(page, light);
  await page.reload();
  await page.waitForSelector('#prompt');
  assert.equal(await settled(page, light), dark);
  await page.click('[role=radio][aria-label="System theme"]');
  assert.equal(await settled(page, dark), light);
  await page.closeClean();
});

test('on a phone everything fits, and Enter makes a line', async () => {
  const made = await makeConversation(rig, conversation);
  const page = await openPage(rig, { ...phone, deviceScaleFactor: 2 }, `/c/${made.id}`);
  await page.waitForSelector('.markdown math mfrac');
  const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await eventually(async () => assert.equal(await overflow(), 0));
  await wantAccessible(page, 'phone');
  await page.locator('article').nth(1).evaluate((e) => e.scrollIntoView());
  await shot(page, 'chat-phone');
  await page.fill('#prompt', 'one');
  await page.press('#prompt', 'Enter');
  await eventually(async () => assert.equal(await page.inputValue('#prompt'), 'one\n'));
  await page.tap('[aria-label="Send"]');
  await answered(page, 2);
  await page.tap('[aria-label="Show the list of chats"]');
  await page.waitForSelector('nav li a');
  await eventually(async () => assert.equal(await overflow(), 0));
  await wantAccessible(page, 'list on a phone');
  await page.tap('nav >> text=New chat');
  await page.waitForSelector('text=What shall we talk about?');
  await page.waitForSelector('nav', { state: 'detached' });
  await shot(page, 'chat-phone-empty');
  await page.closeClean();
});

test('the list of chats does not cover the chat of a window that becomes narrow', async () => {
  const page = await openPage(rig);
  await page.waitForSelector('nav');
  await page.setViewportSize(phone.viewport);
  await page.waitForSelector('nav', { state: 'detached' });
  await wantFit(page, 'a window that became narrow');
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.waitForSelector('nav');
  await page.closeClean();
});

inEveryLook('a page that does not exist says so in the style of the others', async (options, name) => {
  const page = await openPage(rig, options, '/nope', 'h1');
  await eventually(async () => assert.equal(await page.locator('h1').innerText(), 'Page not found'));
  await page.goto(rig.url);
  await page.waitForSelector('#prompt');
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const chat = await paper();
  await page.goto(`${rig.url}/nope`);
  await eventually(async () => assert.equal(await paper(), chat));
  await wantFit(page, `no page, ${name}`);
  await page.closeClean();
});

/** Presses Tab until the focus is on what a selector names. */
async function tabTo(page, selector) {
  for (let n = 0; n < 60; n++) {
    if (await page.evaluate((s) => document.activeElement?.matches(s) ?? false, selector)) return;
    await page.keyboard.press('Tab');
  }
  assert.fail(`Tab does not reach ${selector}`);
}

test('keys alone: new, send, stop, edit, answer again, rename, export, search, help', async () => {
  const page = await openPage(rig);
  await answerAtLength(page);
  await page.keyboard.press('Control+Shift+O');
  await page.waitForFunction(() => document.activeElement?.id === 'prompt');
  await page.keyboard.type('Tell me a story');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('about an owl.');
  await page.keyboard.press('Enter');
  await writing(page);
  await page.keyboard.press('Escape');
  await answered(page);
  assert.equal((await kept(rig, page))[0].text, 'Tell me a story\nabout an owl.');
  await page.waitForFunction(() => document.activeElement?.id === 'prompt');
  await page.keyboard.press('ArrowUp');
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Edit your message');
  await page.keyboard.type(' Be brief.');
  await page.keyboard.press('Enter');
  await writing(page);
  await page.keyboard.press('Escape');
  await answered(page);
  await tabTo(page, '[aria-label="Answer again"]');
  await page.keyboard.press('Enter');
  await writing(page);
  await page.keyboard.press('Escape');
  await page.locator('article:not(.mine) >> text=2/2').waitFor();

  await tabTo(page, 'nav li.current [aria-haspopup=menu]');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('Rename'));
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-label') === 'Title');
  await page.keyboard.type('The owl');
  await page.keyboard.press('Enter');
  await page.waitForSelector('nav li.current a:has-text("The owl")');
  await tabTo(page, 'nav li.current [aria-haspopup=menu]');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement?.textContent?.includes('Rename'));
  const download = page.waitForEvent('download');
  for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  assert.equal((await download).suggestedFilename(), 'the-owl.md');

  await page.keyboard.press('Control+k');
  await page.waitForFunction(() => document.activeElement?.getAttribute('type') === 'search');
  await page.keyboard.type('owl');
  await page.waitForSelector('.hit');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement?.id === 'prompt');
  await page.keyboard.press('Control+/');
  await page.waitForSelector('dialog[open] >> text=Edit your last message');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement?.id === 'prompt');
  await page.closeClean();
});

inEveryLook('an empty chat with the demo model says how to add a real one', async (options, name) => {
  const page = await openPage(rig, options);
  const note = page.locator('p', { hasText: 'Polly is a tiny demo model. Add a real one:' });
  await note.waitFor();
  assert.equal(await note.locator('code').textContent(), 'parley pull qwen3:0.6b');
  await wantFit(page, `the demo model, ${name}`);
  await page.context().close();
});
