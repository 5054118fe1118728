/**
 * What the page can do before its own script is here. The build draws the chat's first sight into the page (prerender in
 * vite.config.ts) and puts this beside it, so that on a slow phone one can type at once: what is typed is kept as a draft,
 * and what is pressed is pressed again when the chat has taken over. Those are the same elements: focus, caret and an
 * unfinished word of an input method stay.
 *
 * It is compiled on its own and must import nothing but types.
 */
import type { Early } from '../shared/takeover';

const box = document.getElementById('prompt') as HTMLTextAreaElement;
const form = box.form!;
const submit = form.querySelector<HTMLButtonElement>('[type=submit]')!;
const id = /^\/c\/([^/]+)$/.exec(location.pathname)?.[1];
const draftName = `parley.draft.${id ?? 'new'}`;
const coarse = matchMedia('(pointer: coarse)').matches;
let pressed: HTMLElement | null = null;

function stored(name: string): string {
  try {
    return localStorage.getItem(name) ?? '';
  } catch {
    return '';
  }
}

function typed(): void {
  submit.disabled = box.value.trim() === '';
  try {
    localStorage.setItem(draftName, box.value);
  } catch {
    // It is still in the box.
  }
}

/** Keeps in mind what was pressed last, and shows that it was. */
function press(what: HTMLElement): void {
  pressed?.removeAttribute('aria-busy');
  pressed = what;
  what.setAttribute('aria-busy', 'true');
}

function clicked(event: MouseEvent): void {
  const button = (event.target as Element).closest('button');
  if (!button) return;
  event.preventDefault();
  const example = button.querySelector('span')?.textContent;
  if (example && button.closest('[aria-label=Examples]')) {
    box.value = example;
    typed();
    box.focus();
  } else press(button);
}

/** As habits.svelte.ts has it. */
function sends(event: KeyboardEvent): boolean {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return false;
  return event.ctrlKey || event.metaKey || (stored('parley.enter') !== 'line' && !coarse);
}

function keyed(event: KeyboardEvent): void {
  if (!sends(event)) return;
  event.preventDefault();
  if (!submit.disabled) press(submit);
}

box.value = stored(draftName);
submit.disabled = box.value.trim() === '';
box.addEventListener('input', typed);
box.addEventListener('keydown', keyed);
document.addEventListener('click', clicked, true);
if (id) {
  // A conversation is not a blank page: the box stands below, and there is no greeting.
  document.querySelector('main')!.classList.remove('fresh');
  document.querySelectorAll('.greeting, [aria-label=Examples]').forEach((e) => e.remove());
}
if (!coarse) box.focus();

/** When something was last touched or typed. Loading waits while the user is at it, but not for ever. */
let touchedMs = -Infinity;
const touched = (): void => void (touchedMs = performance.now());
const gestures = ['touchstart', 'keydown', 'input'] as const;
gestures.forEach((g) => document.addEventListener(g, touched, { capture: true, passive: true }));

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const idle = (): Promise<void> => new Promise((resolve) => ('requestIdleCallback' in window ? requestIdleCallback(() => resolve(), { timeout: 500 }) : setTimeout(resolve, 50)));

/** Resolves when this has been painted; in a hidden tab, nothing is. */
const painted = (): Promise<void> => Promise.race([new Promise<void>((resolve) => requestAnimationFrame(() => setTimeout(resolve))), pause(document.hidden ? 0 : 1000)]);

async function untilQuiet(): Promise<void> {
  await idle();
  const patienceMs = performance.now() + 1000;
  while (!pressed && performance.now() - touchedMs < 250 && performance.now() < patienceMs) await pause(50);
}

const early: Early = {
  asked: {},
  untilQuiet,
  takeOver() {
    box.removeEventListener('input', typed);
    box.removeEventListener('keydown', keyed);
    document.removeEventListener('click', clicked, true);
    pressed?.removeAttribute('aria-busy');
    return { text: box.value, pressed };
  },
};
window.parleyEarly = early;
performance.mark('parley:typable');

/** Asks for what the chat wants to know first, while its script is on its way. */
function ask(path: string): void {
  const answer = fetch(path);
  answer.catch(() => undefined); // a later reader of the answer gets the error
  early.asked[path] = answer;
}

/**
 * Begins the chat itself. To fetch, compile and run its parts takes a phone long: so nothing is asked for before the page is
 * painted and the user had time to reach for it, and then each part has its own turn, what others need first.
 */
async function begin(): Promise<void> {
  await painted();
  touched();
  await untilQuiet();
  if (!location.search) ask('/v1/models'); // a token in the address is used first
  const parts = [...document.querySelectorAll<HTMLLinkElement>('link[data-part]')];
  parts.forEach((part) => (part.rel = 'preload'));
  for (const part of parts.reverse()) {
    await untilQuiet();
    await import(/* @vite-ignore */ part.href);
  }
  await untilQuiet();
  early.begin!();
}
void begin();
