/** Informs other tabs of what changed here, so that all of them show the same. */

export type News =
  | { kind: 'list' }
  /** A conversation has other messages than before, or is being answered. */
  | { kind: 'chat'; conversation: string };

const channel = new BroadcastChannel('parley');

export const tell = (news: News): void => channel.postMessage(news);

export function whenTold(f: (news: News) => void): void {
  channel.addEventListener('message', (event: MessageEvent<News>) => f(event.data));
}
