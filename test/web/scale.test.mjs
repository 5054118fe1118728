// The page of the autoscaler: what is wanted and why, forecast against reality, cost; in light, dark and on a phone.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { asOwner, eventually, inEveryLook, openPage, openPages, shot, wantFit } from './pages.mjs';

// No worker need be there: an autoscaler reports what it sees.
const rig = openPages('--model', 'polly-mini', '--worker', 'http://127.0.0.1:9');
const report = {
  target: 'deployment/vllm',
  desired: 5,
  ready: 3,
  starting: 1,
  min: 1,
  max: 8,
  why: '12.40 requests/s are expected within 45s, and one worker serves 2.80',
  rate: 10.5,
  expected: 12.4,
  horizon_seconds: 45,
  price: 2.5,
  budget: 20,
};

const told = new Map();
const send = (body) => fetch(`${rig.server.url}/fleet/scale`, { method: 'POST', headers: { 'content-type': 'application/json', ...asOwner(rig.server) }, body: JSON.stringify(body) });

/** Reports, and again every second as autoscalers do: one that does not is shown to be silent. */
async function tell(members) {
  const body = { ...report, ...members };
  told.set(body.target, body);
  const response = await send(body);
  assert.equal(response.status, 200, await response.text());
}

const again = setInterval(() => told.forEach((body) => void send(body).catch(() => undefined)), 1000);
after(() => clearInterval(again));

const openScale = (options) => openPage(rig, options, '/admin#scale', 'main :is([data-target], .empty)');
const section = (page, target = report.target) => page.locator(`[data-target="${target}"]`);
const number = async (page, name) => (await section(page).locator(`[data-number="${name}"]`).innerText()).trim();

test('without an autoscaler the page says how one is started', async () => {
  const page = await openScale();
  await page.getByText('No autoscaler has reported').waitFor();
  await eventually(async () => assert.match(await page.locator('main').innerText(), /parley fleet scale/));
  await page.closeClean();
});

test('what is wanted, what is there, why, and what it costs', async () => {
  await tell({});
  const page = await openScale();
  await eventually(async () => assert.equal(await section(page).locator('[data-why]').innerText(), `5 workers are wanted, because ${report.why}.`));
  await eventually(async () => assert.equal(await number(page, 'desired'), '5'));
  await eventually(async () => assert.equal(await number(page, 'ready'), '3'));
  await eventually(async () => assert.equal(await number(page, 'cost'), '$10.00'));
  for (const want of ['adding', 'from 1 to 8', '1 starting', '12 expected', '$12.50 for the wanted number', 'budget $20.00']) await section(page).filter({ hasText: want }).waitFor();
  for (const title of ['Workers', 'Requests per second', 'Cost per hour']) await section(page).locator(`[data-chart="${title}"] path.line`).first().waitFor({ state: 'attached' });
  await page.getByRole('button', { name: '6 hours' }).click();
  await page.waitForFunction(() => location.hash.includes('range=6h'));
  await page.closeClean();
});

test('it follows the autoscaler, and says what is wrong', async () => {
  const page = await openScale();
  await page.clock.install();
  await page.reload();
  await section(page).waitFor();
  /** Reports, and has the page ask at once. */
  const tellPage = async (members) => {
    await tell(members);
    await page.clock.fastForward(5000);
  };
  await tellPage({ desired: 3, starting: 0, why: 'a quiet hour' });
  await page.waitForFunction(() => document.querySelector('[data-number="desired"]').textContent.trim() === '3');
  await section(page).getByText('steady').waitFor();
  const problem = 'the API server answered 403: add to its role in namespace llm the rule {apiGroups: ["apps"], resources: [deployments/scale], verbs: [update]}';
  await tellPage({ problem });
  await section(page).getByText(problem).waitFor();
  await section(page).getByText('cannot act').waitFor();
  await tellPage({ target: 'statefulset/other', stands_by: 'gateway-0' });
  await section(page, 'statefulset/other').getByText('gateway-0 is active').waitFor();
  await page.getByRole('link', { name: 'What to do when the number is wrong' }).click();
  await page.locator('h3.chosen', { hasText: 'Scaling' }).waitFor();
  await page.closeClean();
});

inEveryLook('readable for all', async (options, name) => {
  await tell({});
  const page = await openScale(options);
  await section(page).waitFor();
  await wantFit(page, name);
  await shot(page, `admin-scale-${name}`);
  await page.closeClean();
});
