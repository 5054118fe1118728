/**
 * Who this page is signed in as. A key, or the token of a server without keys, is exchanged once for a cookie that no script
 * can read; nothing secret is kept here. The chat and the admin page have sessions of their own.
 */
import { json, request, waitForSignIn } from './api';

export interface Session {
  signed_in: boolean;
  /** What one signs in with: an API key, or the token of a server that has none. */
  kind: 'key' | 'local';
  name?: string;
  redacted_key?: string;
}

const path = (): string => (location.pathname.startsWith('/admin') ? '/admin/session' : '/session');

export const session = {
  show: (): Promise<Session> => json<Session>(path()),
  open: (secret: string): Promise<Session> => json<Session>(path(), { body: { key: secret }, duringSignIn: true }),
  close: async (): Promise<void> => void (await request(path(), { method: 'DELETE' })),
};

/** Signs in with the token in the address, if there is one, and takes it out of the address bar and the history. */
export async function useTokenOfAddress(): Promise<void> {
  localStorage.removeItem('parley.key'); // where earlier versions kept a key
  const address = new URL(location.href);
  const token = address.searchParams.get('token');
  if (!token) return;
  address.searchParams.delete('token');
  history.replaceState(history.state, '', address);
  const opened = session.open(token).then(() => undefined, () => undefined); // the next request says what is missing
  await waitForSignIn(opened);
}

/** How a session is shown to its user. */
export function describe(s: Session | null): string {
  if (!s?.signed_in) return 'Not signed in';
  if (s.kind === 'local') return 'Signed in as the owner of this server';
  return `Signed in with the key ${s.name ? `${s.name} (${s.redacted_key})` : s.redacted_key}`;
}
