/** Passkeys: what the browser's own interface says in bytes, the server's says in text. */
import { json } from './api';
import type { Credential } from './session';

interface Challenge {
  challenge: string;
  site: string;
  user?: string;
  email?: string;
  name?: string;
  exclude?: string[];
}

/** Whether this page can have passkeys: browsers want a domain name, and https but for localhost. */
export const passkeysWork = (): boolean => isSecureContext && 'PublicKeyCredential' in window && !/^[\d.]+$|:/.test(location.hostname);

const bytesOf = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;

function textOf(bytes: ArrayBuffer): string {
  const letters = Array.from(new Uint8Array(bytes), (b) => String.fromCharCode(b)).join('');
  return btoa(letters).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

const decoded = (text: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0)) as Uint8Array<ArrayBuffer>;

/** Asks the browser for a passkey to sign in with; null if the user has changed their mind. */
export async function passkeyCredential(): Promise<Credential | null> {
  const { challenge, site } = await json<Challenge>('/session/passkey', { body: {}, duringSignIn: true });
  const made = (await navigator.credentials.get({ publicKey: { challenge: bytesOf(challenge), rpId: site, userVerification: 'required' } }).catch(() => null)) as PublicKeyCredential | null;
  if (!made) return null;
  const response = made.response as AuthenticatorAssertionResponse;
  return {
    passkey: { id: textOf(made.rawId), client_data: textOf(response.clientDataJSON), authenticator_data: textOf(response.authenticatorData), signature: textOf(response.signature) },
  };
}

/** Has the browser make a passkey of the account and registers it; false if the user has changed their mind. */
export async function addPasskey(name: string, password: string): Promise<boolean> {
  const c = await json<Challenge>('/account/passkeys/challenge', { body: { current_password: password } });
  const made = (await navigator.credentials
    .create({
      publicKey: {
        challenge: bytesOf(c.challenge),
        rp: { id: c.site, name: 'Parley' },
        user: { id: bytesOf(c.user ?? ''), name: c.email ?? '', displayName: c.name || c.email || '' },
        pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: 'public-key', alg })),
        excludeCredentials: (c.exclude ?? []).map((id) => ({ type: 'public-key', id: decoded(id) })),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        attestation: 'none',
      },
    })
    .catch(() => null)) as PublicKeyCredential | null;
  const response = made?.response as AuthenticatorAttestationResponse | undefined;
  const key = response?.getPublicKey();
  if (!made || !response || !key) return false;
  await json('/account/passkeys', {
    body: { name, id: textOf(made.rawId), public_key: textOf(key), client_data: textOf(response.clientDataJSON), authenticator_data: textOf(response.getAuthenticatorData()) },
  });
  return true;
}
