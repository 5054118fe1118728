import '../shared/tokens.css';
import '../shared/base.css';
import './math.css';
import './shell.css';
import { hydrate, mount } from 'svelte';
import { takeOver, untilQuiet } from '../shared/takeover';
import App from './App.svelte';
import { later } from './later.svelte';
import { app } from './state.svelte';

/** Takes over the page. early.ts calls it, when nobody is typing. */
function begin(): void {
  const target = document.getElementById('app')!;
  const pressAgain = takeOver((text) => app.chat.type(text));
  (target.firstElementChild ? hydrate : mount)(App, { target });
  target.dataset.alive = '';
  performance.mark('parley:alive');
  void app.start(pressAgain);
  void later.load(app.sidebar || !app.chat.fresh).then(showFonts);
}

/** Has the fonts loaded, and used at once on the next visit. */
async function showFonts(): Promise<void> {
  await untilQuiet();
  document.documentElement.dataset.fonts = '';
  await document.fonts.ready;
  localStorage.setItem('parley.fonts', 'kept');
}

if (window.parleyEarly) window.parleyEarly.begin = begin;
else begin();
