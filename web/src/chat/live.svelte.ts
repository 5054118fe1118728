/**
 * An answer while it is written. The server writes it whether or not a client
 * looks: a page that loses the stream takes it up again where the answer is by
 * then, and a page that was loaded anew follows it like the first.
 */
import { Failure, request, type Chunk, type Options, type Progress, type Timings, type Usage } from '../shared/api';
import { eventsOf } from '../shared/sse';

const paintMs = 40;
const retryMs = [250, 500, 1000, 2000, 4000];

export interface Place {
  message: string;
  question: string;
}

/** How an answer ended, as far as this page has seen. */
export type Ending = { ok: true } | { ok: false; failure: Failure };

export class Live {
  /** The answer's id, empty until the server has said it. */
  message = $state('');
  text = $state('');
  reasoning = $state('');
  progress = $state.raw<Progress | null>(null);
  usage = $state.raw<Usage | null>(null);
  timings = $state.raw<Timings | null>(null);
  /** Tokens of the answer so far, and how many come per second of late. */
  tokens = $state(0);
  perSecond = $state(0);
  firstTokenMs = $state(0);
  /** Set while the connection is lost and sought again. */
  reconnecting = $state(false);
  stopping = $state(false);
  readonly began = performance.now();

  /** Own answers were asked for by this page just now; of others it has not seen the beginning. */
  constructor(private readonly own = true) {}

  #pending = { text: '', reasoning: '' };
  #paint: ReturnType<typeof setTimeout> | undefined;
  #marks: { at: number; tokens: number }[] = [];
  #abort = new AbortController();
  #waits: { at: number; ahead: number }[] = [];

  /**
   * Reads streams until the answer has ended. The first comes from path and
   * options; once the answer has a name, a lost one is replaced.
   */
  async follow(conversation: string, path: string, options: Options, placed: (place: Place) => void): Promise<Ending> {
    let attempt = 0;
    for (;;) {
      try {
        const response = await request(path, { ...options, signal: this.#abort.signal });
        this.reconnecting = false;
        const ended = await this.#read(response, (place) => {
          attempt = 0;
          placed(place);
        });
        if (ended) return ended;
      } catch (err) {
        if (this.#abort.signal.aborted) return { ok: false, failure: new Failure(0, 'The page was closed.') };
        if (!(err instanceof Failure)) throw err;
        const gone = !err.offline && err.status < 500;
        if (!this.message || gone || attempt >= retryMs.length * 4) return { ok: false, failure: err };
      }
      // The connection ended before the answer did.
      if (!this.message) return { ok: false, failure: new Failure(0, 'The connection was lost before the server answered.') };
      this.reconnecting = true;
      await new Promise((resolve) => setTimeout(resolve, retryMs[Math.min(attempt++, retryMs.length - 1)]));
      path = `/v1/conversations/${conversation}/messages/${this.message}/stream`;
      options = {};
    }
  }

  /** Stops reading. The server continues. */
  leave(): void {
    this.#abort.abort();
    clearTimeout(this.#paint);
  }

  async #read(response: Response, placed: (place: Place) => void): Promise<Ending | null> {
    const shown = { text: '', reasoning: '' };
    try {
      for await (const { data } of eventsOf(response)) {
        if (data === '[DONE]') return { ok: true };
        const chunk = JSON.parse(data) as Chunk;
        if (chunk.error) return { ok: false, failure: new Failure(500, chunk.error.message, chunk.error.code ?? '', (chunk.error.retry_after_ms ?? 0) / 1000) };
        if (chunk.message_id && !this.message) this.message = chunk.message_id;
        if (chunk.message_id) placed({ message: chunk.message_id, question: chunk.question_id ?? '' });
        if (chunk.prompt_progress) this.#see(chunk.prompt_progress);
        if (chunk.timings) this.timings = chunk.timings;
        const delta = chunk.choices?.[0]?.delta;
        if (delta?.reasoning_content) shown.reasoning += delta.reasoning_content;
        if (delta?.content) shown.text += delta.content;
        if (chunk.usage) this.#count(chunk.usage);
        // A stream that was taken up begins with all there is.
        if (shown.text.length >= this.#pending.text.length) this.#pending.text = shown.text;
        if (shown.reasoning.length >= this.#pending.reasoning.length) this.#pending.reasoning = shown.reasoning;
        this.#show();
      }
    } catch (err) {
      if (this.#abort.signal.aborted) throw err; // else the connection broke: that is not our error
    } finally {
      this.#flush();
    }
    return null;
  }

  /** The first token is painted at once, what follows a few times a second. */
  #show(): void {
    const first = !this.text && !this.reasoning && (this.#pending.text || this.#pending.reasoning);
    if (first) {
      if (this.own) this.firstTokenMs = performance.now() - this.began;
      this.#flush();
    } else {
      this.#paint ??= setTimeout(() => this.#flush(), paintMs);
    }
  }

  #flush(): void {
    clearTimeout(this.#paint);
    this.#paint = undefined;
    this.text = this.#pending.text;
    this.reasoning = this.#pending.reasoning;
  }

  #count(usage: Usage): void {
    this.usage = usage;
    if (usage.completion_tokens === this.tokens) return;
    this.tokens = usage.completion_tokens;
    const now = performance.now();
    this.#marks.push({ at: now, tokens: this.tokens });
    while (this.#marks.length > 2 && now - this.#marks[0]!.at > 2000) this.#marks.shift();
    const first = this.#marks[0]!;
    if (now - first.at > 150) this.perSecond = ((this.tokens - first.tokens) * 1000) / (now - first.at);
  }

  #see(progress: Progress): void {
    this.progress = progress;
    if (progress.waiting) this.#waits.push({ at: performance.now(), ahead: progress.ahead ?? 0 });
  }

  /** How long the wait may still be, as the server says or as the queue has moved; 0 if it is not known. */
  get waitMs(): number {
    if (this.progress?.wait_ms) return this.progress.wait_ms;
    const first = this.#waits[0];
    const last = this.#waits.at(-1);
    if (!first || !last || first.ahead <= last.ahead) return 0;
    return ((last.at - first.at) / (first.ahead - last.ahead)) * (last.ahead + 1);
  }
}
