import { json, request } from '../shared/api';
import type { Limits, Standing } from './limits';
import type { Row } from './usage';

export interface Key {
  id: string;
  name: string;
  redacted_value: string;
  value?: string;
  created_at: number;
  expires_at: number | null;
  last_used_at: number | null;
  /** When it was deleted; absent if it was not. */
  deleted_at?: number;
  organization: string;
  user: string | null;
  tier: string | null;
  models: string[] | null;
  limits: Limits;
  admin: boolean;
  blocked: boolean;
  /** What blocks it, where that is not the key itself. */
  blocked_by?: 'organization' | 'user';
  /** How it stands with its own budget, where it has one. */
  budget: Standing | null;
}

export interface Tenant {
  id: string;
  status: 'active' | 'archived';
  tier: string;
  models: string[] | null;
  limits: Limits;
  /** Those that apply, its tier's included. */
  effective_limits: Limits;
  /** How it stands with its budget, which may be its tier's. */
  budget: Standing | null;
}

export const keysPath = '/admin/api/organization/api_keys';
export const adminKeysPath = '/admin/api/organization/admin_api_keys';
export const tenantsPath = '/admin/api/organization/projects';

/** Reads all keys, a page at a time. */
export async function readKeys(query = ''): Promise<Key[]> {
  const keys: Key[] = [];
  for (let after = ''; ; ) {
    const page = await json<{ data: Key[]; has_more: boolean }>(`${keysPath}?limit=100&after=${after}${query}`);
    keys.push(...page.data);
    if (!page.has_more) return keys;
    after = page.data.at(-1)!.id;
  }
}

/** Names of models with commas between, as a field has them; none is null. */
export function modelsOf(text: string): string[] | null {
  const names = text.split(',').map((n) => n.trim()).filter(Boolean);
  return names.length ? names : null;
}

/** Something that ends requests of clients, and so is asked about first. */
export interface Doing {
  title: string;
  verb: string;
  effect: string;
  /** Which usage is of the clients that are affected, and what else is. */
  affects: (row: Row) => boolean;
  also?: string;
  /** How long clients have left, as choices. */
  choose?: string;
  choices?: { value: string; label: string }[];
  act: (choice: string) => Promise<unknown>;
  done: (choice: string) => string;
  undo?: (choice: string) => Promise<unknown>;
}

const day = 86_400;
const name = (k: Key): string => k.name || k.redacted_value;
const ofKey = (k: Key) => (row: Row): boolean => row.key === k.id;
const change = (k: Key, body: object): Promise<unknown> => json(`${keysPath}/${k.id}`, { body });

export const rotating = (k: Key): Doing => ({
  title: `Rotate ${name(k)}`,
  verb: 'Rotate',
  effect: 'The key gets a new secret. Clients that still send the old one are rejected when its time is over.',
  affects: ofKey(k),
  choose: 'The old secret stays valid for',
  choices: [
    { value: String(day), label: '24 hours' },
    { value: '3600', label: '1 hour' },
    { value: String(7 * day), label: '7 days' },
    { value: '0', label: 'no longer: clients fail at once' },
  ],
  act: (grace) => json(`${keysPath}/${k.id}/rotate`, { body: { grace_seconds: Number(grace) } }),
  done: (grace) => (grace === '0' ? `${name(k)} has a new secret, and the old one has ended.` : `${name(k)} has a new secret. The old one works until ${new Date(Date.now() + 1000 * Number(grace)).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' })}.`),
});

export const blocking = (k: Key): Doing => ({
  title: `Block ${name(k)}`,
  verb: 'Block',
  effect: 'Requests with this key are rejected, and answers being written end within a second, until you unblock it.',
  affects: ofKey(k),
  act: () => change(k, { blocked: true }),
  done: () => `${name(k)} is blocked.`,
  undo: () => change(k, { blocked: false }),
});

export const deleting = (k: Key): Doing => ({
  title: `Delete ${name(k)}`,
  verb: 'Delete',
  effect: 'Clients that use this key are rejected. It can be restored for 7 days, and its usage stays in the ledger.',
  affects: ofKey(k),
  choose: 'When',
  choices: [
    { value: '0', label: 'at once' },
    { value: String(day), label: 'let it expire in 24 hours' },
    { value: String(7 * day), label: 'let it expire in 7 days' },
  ],
  act: (after) => (after === '0' ? request(`${keysPath}/${k.id}`, { method: 'DELETE' }) : change(k, { expires_in_seconds: Number(after) })),
  done: (after) => (after === '0' ? `${name(k)} was deleted.` : `${name(k)} expires in ${after === String(day) ? '24 hours' : '7 days'}.`),
  undo: (after) => (after === '0' ? json(`${keysPath}/${k.id}/restore`, { method: 'POST' }) : change(k, { expires_at: k.expires_at })),
});

export const blockingTenant = (t: Tenant, keys: Key[]): Doing => {
  const own = keys.filter((k) => k.organization === t.id).length;
  const path = `${tenantsPath}/${encodeURIComponent(t.id)}`;
  return {
    title: `Block ${t.id}`,
    verb: 'Block',
    effect: 'Every key and every person of this organisation is rejected, and answers being written end within a second, until you unblock it.',
    affects: (row) => row.tenant === t.id,
    also: own === 1 ? '1 key' : `${own} keys`,
    act: () => json(path, { body: { blocked: true } }),
    done: () => `${t.id} is blocked.`,
    undo: () => json(path, { body: { blocked: false } }),
  };
};

export const deletingTenant = (t: Tenant): Doing => ({
  title: `Delete ${t.id}`,
  verb: 'Delete',
  effect: 'Only an organisation without keys and people can be deleted. Its usage stays in the ledger.',
  affects: (row) => row.tenant === t.id,
  act: () => request(`${tenantsPath}/${encodeURIComponent(t.id)}`, { method: 'DELETE' }),
  done: () => `${t.id} was deleted.`,
  undo: () => json(tenantsPath, { body: { id: t.id, tier: t.tier, models: t.models, limits: t.limits } }),
});
