/** What was typed and not yet answered for, so that no text is ever lost: drafts, and messages on their way. */
import type { Attached } from './files';

export interface Outgoing {
  /** The same key sent again is the same message: it cannot be said twice. */
  key: string;
  content: string;
  edit?: string;
}

const draftName = (chat: string): string => `parley.draft.${chat}`;
const filesName = (chat: string): string => `parley.files.${chat}`;
const outgoingName = (chat: string): string => `parley.outgoing.${chat}`;

/** Keeps a text under a name; an empty one is removed. */
function keep(name: string, text: string): void {
  try {
    if (text) localStorage.setItem(name, text);
    else localStorage.removeItem(name);
  } catch {
    // The browser limits what it keeps. What is longer is still on the page.
  }
}

export const drafts = {
  get: (chat: string): string => localStorage.getItem(draftName(chat)) ?? '',
  set: (chat: string, text: string): void => keep(draftName(chat), text),
  files(chat: string): Attached[] {
    try {
      return JSON.parse(localStorage.getItem(filesName(chat)) ?? '[]') as Attached[];
    } catch {
      return [];
    }
  },
  setFiles: (chat: string, files: Attached[]): void => keep(filesName(chat), files.length > 0 ? JSON.stringify(files) : ''),
};

export const outgoing = {
  get(chat: string): Outgoing | null {
    try {
      return JSON.parse(localStorage.getItem(outgoingName(chat)) ?? 'null') as Outgoing | null;
    } catch {
      return null;
    }
  },
  set: (chat: string, message: Outgoing | null): void => keep(outgoingName(chat), message ? JSON.stringify(message) : ''),
};

/** Removes every draft and message on its way from this browser. */
export function forgetDrafts(): void {
  for (const name of Object.keys(localStorage)) if (/^parley\.(draft|files|outgoing)\./.test(name)) localStorage.removeItem(name);
}
