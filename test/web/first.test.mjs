// The first minutes: what the empty page suggests is answered by the demo model, and the chat has the name of its question.
import assert from 'node:assert/strict';
import { answerAtLength, answered, inEveryLook, lastAnswer, looks, openPage, openPages, wantFit } from './pages.mjs';

const rig = openPages();

/** The examples of the empty page, and what a right answer has. */
const examples = [
  ['Tell me a story', /cat/i],
  ['Explain something', /light|scatter|air/i],
  ['Small talk', /Polly|assistant|help/i],
  ['Ask a question', /green/i],
];

inEveryLook('an example of the empty page is answered, and the chat has the name of its question', async (options, name) => {
  const page = await openPage(rig, options);
  await answerAtLength(page, { temperature: 0 });
  const [example, right] = examples[Object.keys(looks).indexOf(name)];
  const button = page.getByRole('list', { name: 'Examples' }).getByRole('button', { name: example });
  const text = await button.locator('span').innerText();
  await button.click();
  if (await page.inputValue('#prompt')) await page.getByRole('button', { name: 'Send', exact: true }).click();
  await answered(page);
  assert.match(await lastAnswer(page), right, text);
  await page.waitForFunction((asked) => {
    const title = document.title.replace(/ · .*$/, '').replace(/…$/, '').trim();
    return title.length > 3 && asked.startsWith(title);
  }, text);
  await wantFit(page, `an example, ${name}`);
  await page.closeClean();
});
