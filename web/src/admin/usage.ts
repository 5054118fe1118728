/** What was used, by time, key, user and model, as the ledger has it; and sums of it. */
import { json, request } from '../shared/api';

export interface Used {
  requests: number;
  input: number;
  cached: number;
  output: number;
  cost: number;
}

export interface Row extends Used {
  /** Unix seconds of the step's beginning. */
  time: number;
  tenant: string;
  user: string;
  key: string;
  model: string;
}

export type By = 'time' | 'key' | 'user' | 'model' | 'tenant';

/** A time that ends now, in steps that begin where the interface's do. */
export interface Period {
  title: string;
  step: 'Minute' | 'Hour' | 'Day';
  width: '1m' | '1h' | '1d';
  seconds: number;
  steps: number;
}

const of = (title: string, step: Period['step'], width: Period['width'], seconds: number, steps: number): Period => ({ title, step, width, seconds, steps });

export const periods: Record<string, Period> = {
  '1h': of('1 hour', 'Minute', '1m', 60, 60),
  '24h': of('24 hours', 'Hour', '1h', 3600, 24),
  '7': of('7 days', 'Day', '1d', 86_400, 7),
  '30': of('30 days', 'Day', '1d', 86_400, 30),
  '90': of('90 days', 'Day', '1d', 86_400, 90),
};

interface Result {
  input_tokens: number;
  input_cached_tokens: number;
  output_tokens: number;
  num_model_requests: number;
  project_id: string;
  user_id: string;
  api_key_id: string;
  model: string;
  line_item: string;
  amount: { value: number };
}

interface Page {
  data: { start_time: number; results: Result[] }[];
}

/** When the first step of a period began, the last being the one that lasts. */
export const startOf = (p: Period, now = Date.now()): number => (Math.floor(now / 1000 / p.seconds) - p.steps + 1) * p.seconds;

const query = (p: Period, key: string, groups: string[]): string =>
  new URLSearchParams([['start_time', String(startOf(p))], ['bucket_width', p.width], ['limit', String(p.steps)], ...groups.map((g) => ['group_by', g]), ...(key ? [['api_key_ids', key]] : [])]).toString();

const usedBy = ['project_id', 'user_id', 'api_key_id', 'model'];

/** Reads tokens and money, which the interface separates, and puts them together. */
export async function read(p: Period, key = ''): Promise<Row[]> {
  const [tokens, costs] = await Promise.all([
    json<Page>(`/admin/api/organization/usage/completions?${query(p, key, usedBy)}`),
    json<Page>(`/admin/api/organization/costs?${query(p, key, ['project_id', 'user_id', 'api_key_id', 'line_item'])}`),
  ]);
  const rows = new Map<string, Row>();
  for (const bucket of tokens.data)
    for (const r of bucket.results)
      rows.set(JSON.stringify([bucket.start_time, r.project_id, r.user_id, r.api_key_id, r.model]), {
        time: bucket.start_time, tenant: r.project_id, user: r.user_id, key: r.api_key_id, model: r.model,
        requests: r.num_model_requests, input: r.input_tokens, cached: r.input_cached_tokens, output: r.output_tokens, cost: 0,
      });
  for (const bucket of costs.data)
    for (const r of bucket.results) {
      const row = rows.get(JSON.stringify([bucket.start_time, r.project_id, r.user_id, r.api_key_id, r.line_item]));
      if (row) row.cost += Number(r.amount.value);
    }
  return [...rows.values()];
}

export const nothing = (): Used => ({ requests: 0, input: 0, cached: 0, output: 0, cost: 0 });

function add(sum: Used, row: Used): void {
  sum.requests += row.requests;
  sum.input += row.input;
  sum.cached += row.cached;
  sum.output += row.output;
  sum.cost += row.cost;
}

/** Sums by what is asked for: times latest first, all else by what it cost, then by tokens. */
export function sums(rows: Row[], by: By): { name: string; used: Used }[] {
  const groups = new Map<string, Used>();
  for (const row of rows) {
    const name = String(row[by]);
    if (!groups.has(name)) groups.set(name, nothing());
    add(groups.get(name)!, row);
  }
  const list = [...groups].map(([name, used]) => ({ name, used }));
  if (by === 'time') return list.sort((a, b) => Number(b.name) - Number(a.name));
  return list.sort((a, b) => b.used.cost - a.used.cost || b.used.input + b.used.output - a.used.input - a.used.output);
}

export function total(rows: Row[]): Used {
  const all = nothing();
  for (const row of rows) add(all, row);
  return all;
}

/** Has the browser keep the table, by time, user, key and model. */
export async function download(p: Period, key = ''): Promise<void> {
  const response = await request(`/admin/api/organization/usage/completions?${query(p, key, usedBy)}&format=csv`);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = `usage-${nameOf(startOf(p), p).replace(' ', '-')}-${p.title.replace(' ', '-')}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** A step's name, in UTC: its day, or its day and time. */
export const nameOf = (seconds: number, p: Period): string => {
  const text = new Date(seconds * 1000).toISOString();
  return p.width === '1d' ? text.slice(0, 10) : text.slice(0, 16).replace('T', ' ');
};
