/** What was used, by day, key and model, as the ledger has it; and sums of it. */
import { json, request } from '../shared/api';

export interface Used {
  requests: number;
  input: number;
  cached: number;
  output: number;
  cost: number;
}

export interface Row extends Used {
  /** Unix seconds of the day's beginning, UTC. */
  day: number;
  tenant: string;
  key: string;
  model: string;
}

export type By = 'day' | 'key' | 'model' | 'tenant';

interface Result {
  input_tokens: number;
  input_cached_tokens: number;
  output_tokens: number;
  num_model_requests: number;
  project_id: string;
  api_key_id: string;
  model: string;
  line_item: string;
  amount: { value: number };
}

interface Page {
  data: { start_time: number; results: Result[] }[];
}

const daySeconds = 86_400;

/** When the first of so many days began, the last being today. */
export const startOf = (days: number, now = Date.now()): number => (Math.floor(now / 1000 / daySeconds) - days + 1) * daySeconds;

const query = (days: number, key: string, groups: string[]): string =>
  new URLSearchParams([['start_time', String(startOf(days))], ['bucket_width', '1d'], ['limit', String(days)], ...groups.map((g) => ['group_by', g]), ...(key ? [['api_key_ids', key]] : [])]).toString();

/** Reads tokens and money, which the interface tells apart, and puts them together. */
export async function read(days: number, key = ''): Promise<Row[]> {
  const [tokens, costs] = await Promise.all([
    json<Page>(`/v1/organization/usage/completions?${query(days, key, ['project_id', 'api_key_id', 'model'])}`),
    json<Page>(`/v1/organization/costs?${query(days, key, ['project_id', 'api_key_id', 'line_item'])}`),
  ]);
  const rows = new Map<string, Row>();
  for (const bucket of tokens.data)
    for (const r of bucket.results)
      rows.set(JSON.stringify([bucket.start_time, r.project_id, r.api_key_id, r.model]), {
        day: bucket.start_time, tenant: r.project_id, key: r.api_key_id, model: r.model,
        requests: r.num_model_requests, input: r.input_tokens, cached: r.input_cached_tokens, output: r.output_tokens, cost: 0,
      });
  for (const bucket of costs.data)
    for (const r of bucket.results) {
      const row = rows.get(JSON.stringify([bucket.start_time, r.project_id, r.api_key_id, r.line_item]));
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

/** Sums by what is asked for: days latest first, all else by what it cost, then by tokens. */
export function sums(rows: Row[], by: By): { name: string; used: Used }[] {
  const groups = new Map<string, Used>();
  for (const row of rows) {
    const name = String(row[by]);
    if (!groups.has(name)) groups.set(name, nothing());
    add(groups.get(name)!, row);
  }
  const list = [...groups].map(([name, used]) => ({ name, used }));
  if (by === 'day') return list.sort((a, b) => Number(b.name) - Number(a.name));
  return list.sort((a, b) => b.used.cost - a.used.cost || b.used.input + b.used.output - a.used.input - a.used.output);
}

export function total(rows: Row[]): Used {
  const all = nothing();
  for (const row of rows) add(all, row);
  return all;
}

/** Has the browser keep the table, by day, key and model. */
export async function download(days: number, key = ''): Promise<void> {
  const response = await request(`/v1/organization/usage/completions?${query(days, key, ['project_id', 'api_key_id', 'model'])}&format=csv`);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = `usage-${dateOf(startOf(days))}-${days}-days.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const dateOf = (seconds: number): string => new Date(seconds * 1000).toISOString().slice(0, 10);
