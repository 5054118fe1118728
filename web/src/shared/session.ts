/**
 * Who this page is signed in as. A password, a key, or the token of a server that has neither accounts nor keys, is exchanged
 * once for a cookie that no script can read; nothing secret is kept here. The chat and the admin page have sessions of their own.
 */
import { json, request, waitForSignIn } from './api';

/** What one signs in with: an account, an API key, or the token of a server that has neither. */
export type Kind = 'account' | 'key' | 'local';
export type Credential = { key: string } | { email: string; password: string } | { passkey: Record<string, string> };

export interface User {
  id: string;
  email: string;
  name: string;
  role: 'member' | 'org-admin' | 'server-admin';
  organization: string;
  has_password: boolean;
}

export interface Session {
  signed_in: boolean;
  kind: Kind;
  name?: string;
  redacted_key?: string;
  /** The name of the issuer of OpenID Connect that people may sign in with. */
  issuer?: string;
  user?: User;
}

export interface Invitation {
  email: string;
  organization: string;
  /** The account whose password is chosen anew; null makes a new account. */
  user: string | null;
}

const path = (): string => (location.pathname.startsWith('/admin') ? '/admin/session' : '/session');

export const session = {
  show: (): Promise<Session> => json<Session>(path()),
  open: (credential: Credential): Promise<Session> => json<Session>(path(), { body: credential, duringSignIn: true }),
  close: async (): Promise<void> => void (await request(path(), { method: 'DELETE' })),
  /** Goes to the issuer, which comes back to this page; with the token of an invitation, to accept it. */
  atIssuer: async (invitation = ''): Promise<void> => {
    const back = location.pathname.startsWith('/admin') ? '/admin' : /^\/c\/[\w-]+$/.test(location.pathname) ? location.pathname : '/';
    const { url } = await json<{ url: string }>('/session/issuer', { body: { return_to: back, invitation }, duringSignIn: true });
    location.assign(url);
  },
  first: (email: string, name: string, password: string): Promise<Session> => json<Session>('/account/first', { body: { email, name, password } }),
  invitation: (token: string): Promise<Invitation> => json<Invitation>('/invitation', { body: { token } }),
  accept: (token: string, name: string, password: string): Promise<Session> => json<Session>('/invitation/accept', { body: { token, name, password } }),
};

/** Signs in with the token in the address, if there is one, and takes it out of the address bar and the history. */
export async function useTokenOfAddress(): Promise<void> {
  localStorage.removeItem('parley.key'); // where earlier versions kept a key
  const address = new URL(location.href);
  const token = address.searchParams.get('token');
  if (!token) return;
  address.searchParams.delete('token');
  history.replaceState(history.state, '', address);
  const opened = session.open({ key: token }).then(() => undefined, () => undefined); // the next request says what is missing
  await waitForSignIn(opened);
}

/** The token of the invitation in the address, which is taken out of the address bar and the history. */
export function invitationOfAddress(): string {
  const token = /^#invitation=([\w-]+)$/.exec(location.hash)?.[1] ?? '';
  if (token) history.replaceState(history.state, '', location.pathname + location.search);
  return token;
}

/** How a session is shown to its user. */
export function describe(s: Session | null): string {
  if (!s?.signed_in) return 'Not signed in';
  if (s.user) return `Signed in as ${s.user.name ? `${s.user.name} (${s.user.email})` : s.user.email}`;
  if (s.kind === 'local') return 'Signed in as the owner of this server';
  return `Signed in with the key ${s.name ? `${s.name} (${s.redacted_key})` : s.redacted_key}`;
}
