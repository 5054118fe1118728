import '../shared/tokens.css';
import '../shared/base.css';
import './math.css';
import './shell.css';
import { hydrate, mount } from 'svelte';
import { takeOver, untilQuiet } from '../shared/takeover';
import App from './App.svelte';
import { later } from './later.svelte';
import { app } from './state.svelte';

/** Takes over the page. early.ts calls it, when the user is not typing. */
function begin(): void {
  const target = document.getElementById('app')!;
  const pressAgain = takeOver((text) => app.chat.type(text));
  (target.firstElementChild ? hydrate : mount)(App, { target });
  target.dataset.alive = '';
  performance.mark('parley:alive');
  void app.start(pressAgain);
  takeFiles();
  void later.load(app.sidebar || !app.chat.fresh).then(showFonts).then(offerInstall);
}

/** Takes the files that were chosen before this was here. */
function takeFiles(): void {
  const chooser = document.querySelector<HTMLInputElement>('.chooser');
  if (chooser?.files?.length) chooser.dispatchEvent(new Event('change'));
}

/** Names what a browser needs to put the chat on a home screen: nothing waits for that. */
function offerInstall(): void {
  document.head.append(Object.assign(document.createElement('link'), { rel: 'manifest', href: '/manifest.webmanifest' }));
}

/** How long a machine that can have the fonts at once takes from the last byte of the page to its first sight. */
const quickMsMax = 150;

function isQuick(): boolean {
  const came = performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming | undefined;
  const painted = performance.getEntriesByName('first-contentful-paint')[0];
  return !!came && !!painted && painted.startTime - came.responseEnd < quickMsMax;
}

/** Has the fonts loaded, and on a quick machine used at once on the next visit. On a slow one they would be in the way again. */
async function showFonts(): Promise<void> {
  await untilQuiet();
  document.documentElement.dataset.fonts = '';
  await document.fonts.ready;
  if (isQuick()) localStorage.setItem('parley.fonts', 'kept');
  else localStorage.removeItem('parley.fonts');
}

if (window.parleyEarly) window.parleyEarly.begin = begin;
else begin();
