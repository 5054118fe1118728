import type { Limits, Standing } from './limits';

export interface Key {
  id: string;
  name: string;
  redacted_value: string;
  value?: string;
  created_at: number;
  expires_at: number | null;
  last_used_at: number | null;
  organization: string;
  user: string | null;
  tier: string | null;
  models: string[] | null;
  limits: Limits;
  admin: boolean;
  blocked: boolean;
  /** How it stands with its own budget, where it has one. */
  budget: Standing | null;
}

export interface Tenant {
  id: string;
  status: 'active' | 'archived';
  tier: string;
  models: string[] | null;
  limits: Limits;
  /** How it stands with its budget, which may be its tier's. */
  budget: Standing | null;
}

export const keysPath = '/admin/api/organization/api_keys';
export const adminKeysPath = '/admin/api/organization/admin_api_keys';
export const tenantsPath = '/admin/api/organization/projects';
