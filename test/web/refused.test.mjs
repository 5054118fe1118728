// Who has waited in vain: the server says when to come again, and the page does that if one wants it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answered, endless, kept, openPage, openPages, say, shot, wantAccessible } from './pages.mjs';

const rig = openPages('--seqs', '1', '--share', 'off', '--queue-wait', 'people=2s', '--shed-start', 'off');
const waitMs = 120_000;
const question = 'Is there room for one more?';

/** Has the server write for somebody else, and others wait at the engine's door, until it is told to stop. */
async function occupy() {
  const others = new AbortController();
  const body = JSON.stringify({ model: 'polly', messages: [{ role: 'user', content: 'Tell me a story.' }], ...endless, stream: true });
  const ask = () => fetch(`${rig.server.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal: others.signal });
  const first = await ask();
  const rest = [first, ...Array.from({ length: 8 }, ask)].map(async (r) => (await r).body.pipeTo(new WritableStream())).map((p) => p.catch(() => undefined));
  return async () => {
    others.abort();
    await Promise.all(rest);
  };
}

/** Has the page hear a longer time than the server says, in which buttons can be pressed, and its clock go ahead when it is told to. */
async function stretch(page) {
  await page.clock.install();
  await page.route('**/messages', async (route) => {
    const response = await route.fetch();
    const body = await response.text();
    assert.match(body, /"retry_after_ms":\d+/, 'the server says when to try again');
    await route.fulfill({ response, body: body.replace(/"retry_after_ms":\d+/, `"retry_after_ms":${waitMs}`) });
  });
}

const button = (page, name) => page.getByRole('button', { name, exact: typeof name === 'string' });

test('who is refused after waiting is told when to try again, and is answered if that is wanted', async () => {
  const release = await occupy();
  const page = await openPage(rig);
  await stretch(page);
  await say(page, question);
  await button(page, /^Try again in \d+ s/).waitFor();
  await wantAccessible(page, 'counting');
  await shot(page, 'chat-refused-light');
  await release();

  // Nothing is sent that is not wanted, and what was wanted can be taken back.
  await button(page, /^Try again in/).click();
  await button(page, /^Trying again in/).click();
  await page.clock.fastForward(waitMs);
  await button(page, 'Try again').waitFor();
  assert.equal((await kept(rig, page)).at(-1).status, 'incomplete');
  await button(page, 'Try again').click();
  await answered(page);
  const said = await kept(rig, page);
  assert.deepEqual(said.map((i) => i.role), ['user', 'assistant']);
  assert.equal(said[0].text, question);
  await page.closeClean();
});

test('what is wanted tried again is tried when the server has said', async () => {
  const release = await occupy();
  const page = await openPage(rig);
  await stretch(page);
  await say(page, question);
  await button(page, /^Try again in/).click();
  await button(page, /^Trying again in/).waitFor();
  await release();
  await page.clock.fastForward(waitMs);
  await answered(page);
  assert.equal((await kept(rig, page))[0].text, question);
  await page.closeClean();
});
