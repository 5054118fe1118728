/** What /admin/api answers. Times are in seconds where nothing else is said. */

export interface Verdict {
  bottleneck: 'none' | 'queue' | 'kv' | 'compute' | 'clients' | 'failures';
  happy: boolean;
  sentence: string;
  do?: string;
  /** It is over, and still worth knowing. */
  past?: boolean;
}

export interface Spread {
  p50: number;
  p95: number;
  p99: number;
  count: number;
  /** The last bound, if a percentile lies beyond it: those that equal it are longer. */
  top?: number;
}

export interface Promised {
  name: 'availability' | 'ttft' | 'gap';
  /** To whose requests the times are promised. */
  objective?: string;
  goal: number;
  limit_seconds?: number;
  kept: number;
  count: number;
  burn_5m: number;
  burn_1h: number;
}

export interface Queue {
  model: string;
  pool: string;
  wait_seconds: number;
  tokens_per_second: number;
  model_breaker: string;
  worker_breaker: string;
  waiting: Record<string, number>;
  shedding: Record<string, number>;
}

export interface Worker {
  name: string;
  pool: string;
  model: string;
  kind?: string;
  version?: string;
  state: string;
  /** What went wrong, where that is known. */
  trouble?: string;
  /** Whether it can be put to sleep and woken. */
  sleeps?: boolean;
  running: number;
  waiting: number;
  kv: number;
  hits: number;
  busy: number;
  preemptions: number;
  /** How long its model took to load, at the start or when it was last woken. */
  ready_seconds?: number;
  device?: Device;
}

const tones: Record<string, string> = { up: 'good', draining: 'warn', joining: 'warn', waking: 'warn', warming: 'warn', asleep: 'calm', drained: 'calm' };

/** A worker's state as it is shown, and its colour. One that is drained and has nothing left can be stopped. */
export function shownState(w: Worker): { word: string; tone: string } {
  const word = w.state === 'draining' && w.running + w.waiting === 0 ? 'drained' : w.state;
  return { word, tone: tones[word] ?? 'bad' };
}

/** The GPU of a worker. What is not known is absent. Shares are of 1, memory in bytes, clocks in hertz. */
export interface Device {
  name: string;
  busy?: number;
  bandwidth?: number;
  memory_used?: number;
  memory?: number;
  clock?: number;
  clock_max?: number;
  throttled?: string[];
}

export interface Picture {
  at: string;
  verdict: Verdict;
  running: number;
  waiting: Record<string, number>;
  wait_seconds: number;
  rates: {
    requests: number;
    prefill_tokens: number;
    decode_tokens: number;
    failed: number;
    turned_away: number;
    limited: number;
    refused: number;
    cancelled: number;
    retries: number;
    preemptions: number;
    turned_away_by_tier: Record<string, number>;
  };
  ttft: Spread;
  gap: Spread;
  times: { queue: Spread; prefill: Spread; decode: Spread; whole: Spread };
  /** Ends of answers in the last hour, by their reason. */
  finishes: Record<string, number>;
  hits: number;
  kv: number;
  busy: number;
  promises: Promised[] | null;
  /** The bottleneck of each pool of workers, if there are several. */
  pools?: { pool: string; up: number; workers: number; waiting: number; verdict: { bottleneck: string; happy: boolean; sentence: string; do?: string } }[];
  queues: Queue[] | null;
  workers: Worker[] | null;
}

/** What happened in one step. Null is what could not be measured, because nothing happened. */
export interface Point {
  /** When the step begins, in Unix seconds. */
  at: number;
  running: number;
  waiting: number;
  kv: number;
  busy: number;
  hits: number | null;
  requests: number;
  prefill_tokens: number;
  decode_tokens: number;
  failed: number;
  turned_away: number;
  ttft_p50: number | null;
  ttft_p95: number | null;
  gap_p50: number | null;
  gap_p95: number | null;
  /** The last bound, if a percentile lies beyond it. */
  ttft_top?: number;
  gap_top?: number;
  /** How many first tokens came within each bound, and not within the one before; the last beyond all. */
  ttft_counts: number[];
}

/** What happened between two times, in steps of seconds. Steps without a server have no point. */
export interface Past {
  from: number;
  until: number;
  step: number;
  /** The bounds, in seconds, of what points count first tokens in. */
  bounds: number[];
  points: Point[];
}

export interface Stage {
  where: string;
  name: string;
  start_ms: number;
  ms: number;
  note?: string;
  /** Whose stage it is, which of the workers that were asked, and why it was the last there. */
  worker?: string;
  attempt?: number;
  fault?: string;
}

export interface Life {
  id: string;
  client_id?: string;
  trace_id?: string;
  tenant: string;
  key?: string;
  tier?: string;
  route: string;
  model?: string;
  started: string;
  status: number;
  outcome: string;
  error?: string;
  finish?: string;
  stream: boolean;
  worker?: string;
  worker_reason?: string;
  cache_miss?: string;
  shared?: boolean;
  prompt_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  ttft_ms: number;
  total_ms: number;
  stages: Stage[];
}

/** A page of the latest requests, in the order in which they started, the latest first. */
export interface RequestList {
  data: Life[];
  has_more: boolean;
  /** How many were selected, and how many of them are on earlier pages. */
  total: number;
  before: number;
  /** When the oldest that is kept has started. */
  oldest: string | null;
  /** What can be selected. */
  values: { models: string[]; organizations: string[]; keys: string[]; statuses: string[] };
}

/** What an autoscaler reports, with the reports before. */
export interface Scaled {
  /** What it changes, such as deployment/vllm. */
  target: string;
  desired: number;
  ready: number;
  starting: number;
  min: number;
  max: number;
  why: string;
  /** Requests per second: those that came lately, and the most that are expected within the horizon. */
  rate: number;
  expected: number;
  horizon_seconds: number;
  /** Of a worker, and of all, in an hour; 0 if they are not known. */
  price: number;
  budget: number;
  cost: number;
  cost_desired: number;
  /** Which process scales, if another one reports. */
  stands_by?: string;
  problem?: string;
  /** When it reported, in Unix seconds; stale if that is too long ago. */
  at: number;
  stale: boolean;
  /** What was expected of a time was said before it. */
  points: { at: number; desired: number; ready: number; rate: number | null; expected: number | null; cost: number }[];
}
