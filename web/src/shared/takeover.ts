/** How the chat takes over a page that was in use before its script came: see ../chat/early.ts. */

export interface Early {
  /** What was asked of the server already, by path. */
  asked: Record<string, Promise<Response>>;
  /** Resolves when nothing is being touched or typed. */
  untilQuiet(): Promise<void>;
  /** Begins the chat: set when its script is here. */
  begin?: () => void;
  /** Ends what early.ts does, and returns what was typed and pressed meanwhile. */
  takeOver(): { text: string; pressed: HTMLElement | null };
}

declare global {
  interface Window {
    parleyEarly?: Early;
  }
}

/** The answer to a request that the page has made before this script came; once, for it may be stale later. */
export function askedEarly(path: string): Promise<Response> | undefined {
  const answer = window.parleyEarly?.asked[path];
  if (answer) delete window.parleyEarly!.asked[path];
  return answer;
}

/** Resolves when nothing is being touched or typed, so that what takes long is not in the way. */
export async function untilQuiet(): Promise<void> {
  await window.parleyEarly?.untilQuiet();
}

/** Ends what the page does by itself. Typed gets the text in the box; the function it returns presses again what was pressed too early. */
export function takeOver(typed: (text: string) => void): () => void {
  const before = window.parleyEarly?.takeOver();
  if (before) typed(before.text);
  return () => {
    if (before?.pressed?.isConnected) before.pressed.click();
  };
}
