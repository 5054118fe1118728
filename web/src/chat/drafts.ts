/** What was typed and not yet answered for, so that no text is ever lost: drafts, and messages on their way. */

export interface Outgoing {
  /** The same key sent again is the same message: it cannot be said twice. */
  key: string;
  content: string;
  edit?: string;
}

const draftName = (chat: string): string => `parley.draft.${chat}`;
const outgoingName = (chat: string): string => `parley.outgoing.${chat}`;

export const drafts = {
  get: (chat: string): string => localStorage.getItem(draftName(chat)) ?? '',
  set(chat: string, text: string): void {
    if (text) localStorage.setItem(draftName(chat), text);
    else localStorage.removeItem(draftName(chat));
  },
};

export const outgoing = {
  get(chat: string): Outgoing | null {
    try {
      return JSON.parse(localStorage.getItem(outgoingName(chat)) ?? 'null') as Outgoing | null;
    } catch {
      return null;
    }
  },
  set(chat: string, message: Outgoing | null): void {
    if (message) localStorage.setItem(outgoingName(chat), JSON.stringify(message));
    else localStorage.removeItem(outgoingName(chat));
  },
};
