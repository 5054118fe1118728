// Issuers of OpenID Connect for tests: one of our own, and dex, which others run and PARLEY_DEX names.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const waitMs = 60_000;

/** The password of everybody, and how dex keeps it. */
const password = 'password';
const passwordHash = '$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W';

/**
 * Starts an issuer at a URL of this machine: dex where PARLEY_DEX names it. A client is { id, secret, redirect },
 * people are { email, name, userID, emailVerified, groups }. Returns what ends it.
 */
export async function startIssuer(url, client, people) {
  return process.env.PARLEY_DEX ? startDex(process.env.PARLEY_DEX, url, client, people) : startOwn(url, client, people);
}

/** Signs in at an issuer, which the page has gone to. */
export async function signInAt(page, url, email) {
  await page.waitForURL((at) => at.href.startsWith(`${url}/`));
  await page.fill('input[name=login]', email);
  await page.fill('input[name=password]', password);
  await page.click('button[type=submit]');
}

async function startDex(program, url, client, people) {
  const folder = await mkdtemp(join(tmpdir(), 'parley-dex-'));
  const config = {
    issuer: url,
    storage: { type: 'memory' },
    web: { http: new URL(url).host },
    oauth2: { skipApprovalScreen: true },
    enablePasswordDB: true,
    staticClients: [{ id: client.id, name: 'Parley', secret: client.secret, redirectURIs: [client.redirect] }],
    staticPasswords: people.map((p) => ({ ...p, hash: passwordHash, username: p.name })),
  };
  await writeFile(join(folder, 'dex.yaml'), JSON.stringify(config));
  const dex = spawn(program, ['serve', join(folder, 'dex.yaml')], { stdio: ['ignore', 'ignore', 'pipe'] });
  const end = async () => {
    dex.kill('SIGTERM');
    if (dex.exitCode === null) await once(dex, 'exit');
    await rm(folder, { recursive: true, force: true });
  };
  let said = '';
  dex.stderr.on('data', (text) => (said += text));
  for (let waited = 0; waited < waitMs; waited += 100) {
    if (await fetch(`${url}/.well-known/openid-configuration`).then((r) => r.ok, () => false)) return end;
    assert.equal(dex.exitCode, null, said);
    await pause(100);
  }
  await end();
  throw new Error(`dex was not ready:\n${said}`);
}

/** Starts an issuer with the authorization code flow alone. It refuses what OpenID Connect and PKCE want refused. */
async function startOwn(url, client, people) {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const codes = new Map(); // who signed in, and the request that it was for, by code

  const idToken = (person, asked) => {
    const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const now = Math.floor(Date.now() / 1000);
    const claims = {
      iss: url,
      sub: person.userID,
      aud: client.id,
      exp: now + 3600,
      iat: now,
      nonce: asked.get('nonce'),
      email: person.email,
      email_verified: person.emailVerified,
      groups: asked.get('scope').split(' ').includes('groups') ? person.groups : undefined,
      name: person.name,
    };
    const signed = `${part({ alg: 'ES256', kid: '1' })}.${part(claims)}`;
    return `${signed}.${sign('sha256', signed, { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  };

  const authorize = (asked, form) => {
    if (asked.get('client_id') !== client.id || asked.get('redirect_uri') !== client.redirect ||
        asked.get('response_type') !== 'code' || asked.get('code_challenge_method') !== 'S256') {
      return { status: 400, body: 'not a request of the client' };
    }
    const person = people.find((p) => p.email === form?.get('login') && form.get('password') === password);
    if (!person) {
      const body = '<!doctype html><title>Sign in</title><form method="post"><input name="login"><input name="password" type="password"><button type="submit">Sign in</button></form>';
      return { status: form ? 401 : 200, headers: { 'content-type': 'text/html' }, body };
    }
    const code = randomUUID();
    codes.set(code, { person, asked });
    const back = new URL(client.redirect);
    back.searchParams.set('code', code);
    back.searchParams.set('state', asked.get('state'));
    return { status: 303, headers: { location: back.href } };
  };

  const exchange = (form, authorization) => {
    const { person, asked } = codes.get(form.get('code')) ?? {};
    codes.delete(form.get('code')); // a code is good once
    const challenge = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url');
    if (!person || form.get('grant_type') !== 'authorization_code' || form.get('redirect_uri') !== client.redirect ||
        challenge !== asked.get('code_challenge') ||
        authorization !== `Basic ${Buffer.from(`${client.id}:${client.secret}`).toString('base64')}`) {
      return { status: 400, body: { error: 'invalid_grant' } };
    }
    return { status: 200, body: { access_token: randomUUID(), token_type: 'Bearer', expires_in: 3600, id_token: idToken(person, asked) } };
  };

  const answer = (path, query, form, authorization) => {
    switch (path) {
      case '/.well-known/openid-configuration':
        return {
          status: 200,
          body: {
            issuer: url,
            authorization_endpoint: `${url}/auth`,
            token_endpoint: `${url}/token`,
            jwks_uri: `${url}/keys`,
            response_types_supported: ['code'],
            subject_types_supported: ['public'],
            id_token_signing_alg_values_supported: ['ES256'],
          },
        };
      case '/keys':
        return { status: 200, body: { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: '1', alg: 'ES256', use: 'sig' }] } };
      case '/auth':
        return authorize(query, form);
      case '/token':
        return exchange(form ?? new URLSearchParams(), authorization);
      default:
        return { status: 404 };
    }
  };

  const base = new URL(url);
  const listener = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) text += chunk;
    const at = new URL(request.url, url);
    const form = request.method === 'POST' ? new URLSearchParams(text) : undefined;
    const path = at.pathname.startsWith(`${base.pathname}/`) ? at.pathname.slice(base.pathname.length) : '';
    const { status, headers = { 'content-type': 'application/json' }, body } = answer(path, at.searchParams, form, request.headers.authorization);
    response.writeHead(status, headers);
    response.end(typeof body === 'object' ? JSON.stringify(body) : body);
  });
  listener.listen(Number(base.port), base.hostname);
  await once(listener, 'listening');
  return async () => {
    listener.closeAllConnections();
    listener.close();
    await once(listener, 'close');
  };
}
