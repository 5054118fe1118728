/**
 * The server's interface, as far as pages use it. All requests go to the
 * page's own origin, with the cookie of its session: see session.ts.
 */
import { askedEarly } from './takeover';

/** What the server says went wrong, or that it could not be reached (status 0). */
export class Failure extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code = '',
    readonly retryAfterSeconds = 0,
  ) {
    super(message);
  }

  /** Nothing was heard from the server: the connection failed. */
  get offline(): boolean {
    return this.status === 0;
  }

  /** The server wants the page to sign in. */
  get unknownKey(): boolean {
    return this.status === 401;
  }
}

/** Called when the server refuses for want of a session. */
let onRefused: (failure: Failure) => void = () => undefined;
export function whenRefused(f: (failure: Failure) => void): void {
  onRefused = f;
}

/** Settles when the page has signed in, or could not. */
let signedIn: Promise<void> = Promise.resolve();

/** Makes every request wait for a sign-in that is under way, whose own request says duringSignIn. */
export function waitForSignIn(under: Promise<void>): Promise<void> {
  return (signedIn = under);
}

export interface Options {
  /** The request belongs to the sign-in that all others wait for. */
  duringSignIn?: boolean;
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** Sends a request and returns the response if its status is a good one. */
export async function request(path: string, options: Options = {}): Promise<Response> {
  if (!options.duringSignIn) await signedIn;
  const headers: Record<string, string> = { ...options.headers };
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  let response: Response;
  try {
    response = await (askedEarly(path) ?? fetch(path, {
      method: options.method ?? (options.body === undefined ? 'GET' : 'POST'),
      headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal,
    }));
  } catch (err) {
    if (options.signal?.aborted) throw err;
    throw new Failure(0, 'The server cannot be reached.');
  }
  if (response.ok) return response;
  const failure = await failureOf(response);
  if (failure.unknownKey) onRefused(failure);
  throw failure;
}

async function failureOf(response: Response): Promise<Failure> {
  const retry = Number(response.headers.get('retry-after') ?? 0) || 0;
  try {
    const { error } = await response.json();
    if (error.code === 'missing_api_key' || error.code === 'missing_local_token') return new Failure(response.status, 'Sign in to use this page.', error.code); // the server's message is for programs
    return new Failure(response.status, error.message, error.code ?? '', retry);
  } catch {
    return new Failure(response.status, `The server answered with status ${response.status}.`, '', retry);
  }
}

export async function json<T>(path: string, options?: Options): Promise<T> {
  return (await request(path, options)).json() as Promise<T>;
}

export interface List<T> {
  data: T[];
  has_more: boolean;
  first_id: string;
  last_id: string;
}

export interface Model {
  id: string;
  owned_by: string;
  max_model_len?: number;
  /** How many weights it has, where that is known. */
  parameters?: number;
  /** Why it cannot be chatted with now; absent if it can. */
  unavailable?: string;
  /** What it is good at, in a few words. */
  description?: string;
  /** It is too small for real work. */
  demo?: boolean;
  /** Its workers take conversations alone: an answer that broke off cannot be continued. */
  turns_only?: boolean;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details?: { cached_tokens: number; dropped_tokens?: number };
  /** In the unit that the server's prices are in. */
  cost?: number;
}

export interface Timings {
  queued_ms: number;
  prefill_ms: number;
  decode_ms: number;
  prompt_per_second: number;
  predicted_per_second: number;
  cached: number;
  cache_miss?: string;
  worker?: string;
  worker_reason?: string;
  ttft_ms?: number;
  cost_micros?: number;
}

export interface Progress {
  total: number;
  cache: number;
  processed: number;
  time_ms: number;
  waiting?: boolean;
  /** The model is brought into memory first. */
  loading?: boolean;
  ahead?: number;
  wait_ms?: number;
}

export type Policy = 'refuse' | 'drop' | 'summarise';

export interface Conversation {
  id: string;
  created_at: number;
  updated_at: number;
  metadata: Record<string, string>;
  model: string;
  title: string;
  pinned: boolean;
  temporary: boolean;
  context_policy: Policy;
  current_leaf: string | null;
  message_count: number;
}

export interface ContextNote {
  policy: Policy;
  left_out_messages: number;
  summary_shown?: string;
}

export interface Item {
  id: string;
  type: string;
  role?: string;
  status: 'in_progress' | 'completed' | 'incomplete';
  content?: { type: string; text?: string }[];
  parent_id: string | null;
  created_at: number;
  model?: string;
  finish_reason?: string;
  usage?: Usage;
  reasoning_content?: string;
  tool_calls?: { id: string; function: { name: string; arguments: string } }[];
  tool_outputs?: { tool_call_id: string; output: string }[];
  context?: ContextNote;
  error?: { code: string; message: string };
  timings?: Timings;
  outcome?: 'cancelled' | 'failed' | 'incomplete';
}

export interface Node {
  id: string;
  parent_id: string | null;
  role: string;
  status: string;
}

export interface Hit {
  conversation_id: string;
  message_id: string | null;
  title: string;
  created_at: number;
  snippet: { text: string; hit: boolean }[];
  /** How many places of its conversation were found, where they are grouped. */
  matches?: number;
}

/** One event of an answer that is being written. */
export interface Chunk {
  conversation_id?: string;
  message_id?: string;
  question_id?: string;
  choices?: { delta: { content?: string | null; reasoning_content?: string }; finish_reason: string | null }[];
  usage?: Usage | null;
  timings?: Timings;
  prompt_progress?: Progress;
  context?: ContextNote;
  error?: { message: string; code?: string | null; type?: string; retry_after_ms?: number };
}
