/** What a key or a tenant may use. Amounts of money are decimal texts such as "12.50". */
export interface Limits {
  requests_per_second?: number;
  requests_per_minute?: number;
  light_requests_per_minute?: number;
  input_tokens_per_minute?: number;
  output_tokens_per_minute?: number;
  concurrent_requests?: number;
  monthly_budget?: string;
  /** The share of the budget from which on it is nearly spent; left out, the server's. */
  budget_alert?: number;
}

/** How a key or tenant stands with the budget of this month. */
export interface Standing {
  limit: string;
  spent: string;
  used: number;
  alert: number;
  state: 'ok' | 'near' | 'spent';
  resets_at: number;
}

/** The day on which a budget begins anew. */
export const resetDay = (s: Standing): string => new Date(s.resets_at * 1000).toLocaleDateString(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' }).replaceAll(' ', '\u00a0');

/** Limits as they stand in the fields of a form. Empty means unlimited. The alert is in percent. */
export type LimitTexts = Record<keyof Limits, string>;

const names: (keyof Limits)[] = ['requests_per_second', 'requests_per_minute', 'light_requests_per_minute', 'input_tokens_per_minute', 'output_tokens_per_minute', 'concurrent_requests', 'monthly_budget', 'budget_alert'];

const percentOf = (share: number | undefined): string => (share === undefined ? '' : String(Math.round(1000 * share) / 10));

export const textsOf = (limits: Limits = {}): LimitTexts =>
  Object.fromEntries(names.map((n) => [n, n === 'budget_alert' ? percentOf(limits[n]) : String(limits[n] ?? '')])) as LimitTexts;

/** The limits that the fields name. Money stays a text, so that it is exact. */
export function limitsOf(texts: LimitTexts): Limits {
  const given = names.map((n) => [n, texts[n].trim()] as const).filter(([, text]) => text !== '');
  return Object.fromEntries(given.map(([n, text]) => [n, n === 'monthly_budget' ? text : n === 'budget_alert' ? Math.round(10 * Number(text)) / 1000 : Number(text)]));
}

const whole = new Intl.NumberFormat('en');

/** Limits in words, one for each that is set. */
export function inWords(l: Limits, currency: string): string[] {
  const of = (n: number | undefined, what: string): string => (n ? `${whole.format(n)} ${what}` : '');
  return [
    of(l.requests_per_second, 'requests/s'),
    of(l.requests_per_minute, 'requests/min'),
    of(l.light_requests_per_minute, 'light requests/min'),
    of(l.input_tokens_per_minute, 'prompt tokens/min'),
    of(l.output_tokens_per_minute, 'output tokens/min'),
    of(l.concurrent_requests, 'concurrent'),
    l.monthly_budget ? `${money(l.monthly_budget, currency)} a month` : '',
  ].filter(Boolean);
}

/** An amount with its currency: $12.50, 0.000123 credits. Small amounts keep the places that say something. */
export function money(amount: number | string, currency: string): string {
  const n = Number(amount);
  const digits = n !== 0 && Math.abs(n) < 0.01 ? Math.min(6, 1 - Math.floor(Math.log10(Math.abs(n)))) : 2;
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency, minimumFractionDigits: 2, maximumFractionDigits: digits }).format(n);
  } catch {
    return `${n.toFixed(digits)} ${currency}`; // a unit of the house
  }
}
