/** One conversation as the page shows it: its branch, what is being written, and what can be done. */
import { Failure, json, type Conversation, type Item, type List, type Node } from '../shared/api';
import { toasts } from '../shared/toasts.svelte';
import { drafts, outgoing, type Outgoing } from './drafts';
import { filesIn, withFiles, type Attached } from './files';
import { Live, type Place } from './live.svelte';
import { fromMetadata, policyOf, sinkTokens, standard, toMetadata, toRequest, type Settings } from './settings';
import { tell } from './tabs';
import { newestLeaf, versions } from './tree';

export const textOf = (item: Item): string => (item.content ?? []).map((part) => part.text ?? '').join('');

const newChat = 'new';

export class Chat {
  /** Null until the first message is sent. */
  conversation = $state.raw<Conversation | null>(null);
  items = $state.raw<Item[]>([]);
  nodes = $state.raw<Node[]>([]);
  live = $state.raw<Live | null>(null);
  /** A message that has not reached the server, and why not. */
  unsent = $state.raw<{ message: Outgoing; failure: Failure | null } | null>(null);
  /** The answer that was refused last, and after how many seconds the server wants to be asked again. */
  refused = $state.raw<{ message: string; seconds: number } | null>(null);
  settings = $state<Settings>({ ...standard });
  model = $state('');
  temporary = $state(false);
  /** Whether what is thought for the latest answer is unfolded. */
  thoughtsOpen = $state(false);
  loading = $state(false);
  failure = $state.raw<Failure | null>(null);
  draft = $state('');
  /** What goes along with the draft. */
  files = $state.raw<Attached[]>([]);
  /** What is sent as soon as the answer that is being written is complete; empty for nothing. */
  queued = $state('');
  /** Has a message drawn that stands further up than what is. */
  reach: ((id: string) => void) | undefined;
  /** Begins to edit the last message that was sent, where it is shown. */
  editLast: (() => boolean) | undefined;

  constructor(
    readonly id: string | null,
    model: string,
    /** Called when the conversation is made, and when what a list shows of it changes. */
    private readonly changed: (conversation: Conversation) => void,
  ) {
    this.model = model;
    this.draft = drafts.get(id ?? newChat);
    this.files = drafts.files(id ?? newChat);
    const waiting = outgoing.get(id ?? newChat);
    if (waiting) this.unsent = { message: waiting, failure: new Failure(0, 'This message was not sent.') };
  }

  get path(): string {
    return `/v1/conversations/${this.conversation?.id ?? this.id}`;
  }

  get #name(): string {
    return this.conversation?.id ?? this.id ?? newChat;
  }

  get busy(): boolean {
    return this.live !== null;
  }

  /** Nothing was said yet. */
  get fresh(): boolean {
    return this.id === null && this.items.length === 0 && !this.unsent && !this.live;
  }

  type(text: string): void {
    this.draft = text;
    drafts.set(this.#name, [this.queued, text].filter(Boolean).join('\n\n')); // what is queued is not lost with the page
  }

  attach(files: Attached[]): void {
    this.files = files;
    drafts.setFiles(this.#name, files);
  }

  async load(): Promise<void> {
    if (this.id === null) return;
    this.loading = true;
    try {
      this.#adopt(await json<Conversation>(this.path));
      if (this.conversation?.model) this.model = this.conversation.model;
      await this.refresh();
      this.failure = null;
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      this.failure = err;
    } finally {
      this.loading = false;
    }
  }

  #adopt(conversation: Conversation): void {
    this.conversation = conversation;
    this.temporary = conversation.temporary;
    this.settings = fromMetadata(conversation.metadata, conversation.context_policy);
    this.changed(conversation);
  }

  /** Reads the branch and the shape of the others again, and follows what is being written. */
  async refresh(): Promise<void> {
    const [items, tree] = await Promise.all([this.#branch(), json<List<Node>>(`${this.path}/tree`)]);
    this.items = items;
    this.nodes = tree.data;
    const last = items.at(-1);
    if (this.unsent && this.#isKept(this.unsent.message)) this.#sent();
    if (last?.status === 'in_progress' && !this.live) void this.#watch(last.id);
  }

  async #branch(): Promise<Item[]> {
    const items: Item[] = [];
    for (let after = ''; ; ) {
      const page = await json<List<Item>>(`${this.path}/items?order=asc&limit=100${after && `&after=${encodeURIComponent(after)}`}`);
      items.push(...page.data);
      if (!page.has_more) return items;
      after = page.last_id;
    }
  }

  /** Sends what was typed and what goes along with it. */
  async sendDraft(): Promise<void> {
    if (this.busy) {
      this.queued = [this.queued, withFiles(this.draft, this.files)].filter(Boolean).join('\n\n');
      this.attach([]);
      this.type('');
      return;
    }
    await this.send(withFiles(this.draft, this.files));
  }

  /** Sends a text, as a new message or as another version of one. */
  async send(content: string, edit?: string): Promise<void> {
    await this.sendAgain({ key: crypto.randomUUID?.() ?? String(Math.random()).slice(2), content, edit });
  }

  /** Sends a message that is on its way, perhaps not for the first time. */
  async sendAgain(message: Outgoing): Promise<void> {
    if (this.busy) return;
    const before = this.#name;
    outgoing.set(before, message);
    if (!message.edit) {
      this.type('');
      this.attach([]);
    }
    this.unsent = { message, failure: null };
    const live = (this.live = new Live());
    try {
      if (!this.conversation) await this.#create(message.key);
      if (before === newChat) {
        outgoing.set(newChat, null);
        outgoing.set(this.#name, message);
      }
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      this.live = null;
      this.unsent = { message, failure: err };
      return;
    }
    await this.#turn(live, this.items, `${this.path}/messages`, { content: message.content, ...(message.edit ? { edit: message.edit } : {}) }, message.key);
  }

  /** Makes what is queued the draft again. */
  unqueue(): void {
    const { text, files } = filesIn(this.queued);
    this.queued = '';
    this.attach([...files, ...this.files]);
    this.type([text, this.draft].filter(Boolean).join('\n\n'));
  }

  /** Sends what is queued after an answer that went well; else it is the user's again. */
  #sendQueued(ok: boolean): void {
    const content = this.queued;
    if (!content) return;
    if (!ok || this.unsent) return this.unqueue();
    this.queued = '';
    drafts.set(this.#name, this.draft);
    void this.#sendBeside(content);
  }

  /** Sends a text and leaves the draft as it is. */
  async #sendBeside(content: string): Promise<void> {
    const { draft, files } = this;
    const sent = this.send(content);
    this.attach(files);
    this.type(draft);
    await sent;
  }

  /** Gives up a message that was not sent: its text becomes the draft again. */
  takeBack(): void {
    if (!this.unsent) return;
    const { text, files } = filesIn(this.unsent.message.content);
    this.type(text);
    this.attach(files);
    this.#sent();
  }

  #sent(): void {
    this.unsent = null;
    outgoing.set(this.#name, null);
  }

  async #create(key: string): Promise<void> {
    const body = { model: this.model, temporary: this.temporary, context_policy: policyOf(this.settings), metadata: toMetadata(this.settings, {}) };
    this.#adopt(await json<Conversation>('/v1/conversations', { body, headers: { 'Idempotency-Key': `c-${key}` } }));
  }

  /** Another answer to the same question, perhaps by another model. */
  async regenerate(item: Item, model = this.model): Promise<void> {
    if (this.busy) return;
    const before = this.items;
    this.items = before.slice(0, before.indexOf(item));
    await this.#turn((this.live = new Live()), before, `${this.path}/messages`, { regenerate: item.id, model });
  }

  /** Continues an answer that broke off. One that filled the context continues while the middle of the text fades. */
  async resume(item: Item, full = false): Promise<void> {
    if (this.busy) return;
    const live = new Live();
    live.message = item.id;
    live.text = textOf(item);
    const before = this.items;
    this.items = before.slice(0, before.indexOf(item));
    await this.#turn((this.live = live), before, `${this.path}/messages/${item.id}/resume`, full ? { attention_sink_tokens: sinkTokens } : {});
  }

  /** Has the server answer, and follows that. Before is what is shown again if it cannot be asked. */
  async #turn(live: Live, before: Item[], path: string, members: Record<string, unknown>, key?: string): Promise<void> {
    const body = {
      model: this.model,
      ...toRequest(this.settings),
      ...members,
      background: true,
      stream: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
      return_progress: true,
    };
    await this.#until(live, before, path, { body, headers: key ? { 'Idempotency-Key': key } : {} });
  }

  /** Follows an answer that is being written for another client, or for this page before it was loaded anew. */
  async #watch(message: string): Promise<void> {
    const live = new Live(false);
    live.message = message;
    this.items = this.items.filter((i) => i.id !== message);
    this.live = live;
    await this.#until(live, this.items, `${this.path}/messages/${message}/stream`, {});
  }

  async #until(live: Live, before: Item[], path: string, options: Parameters<Live['follow']>[2]): Promise<void> {
    let told = false;
    const placed = (place: Place): void => {
      if (told) return;
      told = true;
      this.#place(place);
      if (live.stopping) void this.#cancel(live);
      tell({ kind: 'chat', conversation: this.conversation!.id });
    };
    const ending = await live.follow(this.conversation!.id, path, options, placed);
    if (this.live !== live) return; // this page shows something else by now
    this.refused = ending.ok ? null : { message: live.message, seconds: ending.failure.retryAfterSeconds };
    await this.#settle(live, before, told);
    if (this.live === live) this.live = null;
    if (this.unsent && this.#isKept(this.unsent.message)) this.#sent(); // it was refused, but not lost
    if (this.unsent && !ending.ok) this.unsent = { ...this.unsent, failure: ending.failure };
    else if (!ending.ok && !told && this.items.at(-1)?.outcome !== 'failed') toasts.show(ending.failure.message);
    tell({ kind: 'chat', conversation: this.conversation!.id });
    void this.#awaitTitle();
    if (this.live === null) this.#sendQueued(ending.ok);
  }

  /** Whether the server has a message that was on its way. */
  #isKept(message: Outgoing): boolean {
    const last = this.items.findLast((i) => i.role === 'user');
    return last !== undefined && last.id !== message.edit && textOf(last) === message.content && last.created_at * 1000 > Date.now() - 600_000;
  }

  /** The server has the question: it is shown as its, and not ours to keep any more. */
  #place(place: Place): void {
    if (!this.unsent) return;
    const { message } = this.unsent;
    if (message.edit) this.items = this.items.slice(0, this.items.findIndex((i) => i.id === message.edit));
    if (!this.items.some((i) => i.id === place.question)) {
      const question: Item = { id: place.question, type: 'message', role: 'user', status: 'completed', content: [{ type: 'input_text', text: message.content }], parent_id: this.items.at(-1)?.id ?? null, created_at: Date.now() / 1000 };
      this.items = [...this.items, question];
    }
    this.#sent();
  }

  /** Shows what the server has kept. If it cannot be asked, what was seen stays. */
  async #settle(live: Live, before: Item[], told: boolean): Promise<void> {
    try {
      const [items, tree] = await Promise.all([this.#branch(), json<List<Node>>(`${this.path}/tree`)]);
      this.items = items;
      this.nodes = tree.data;
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      if (!told) {
        this.items = before;
        return;
      }
      const seen: Item = { id: live.message, type: 'message', role: 'assistant', status: 'incomplete', outcome: 'failed', content: [{ type: 'output_text', text: live.text }], ...(live.reasoning ? { reasoning_content: live.reasoning } : {}), parent_id: this.items.at(-1)?.id ?? null, created_at: Date.now() / 1000, error: { code: '', message: err.message } };
      this.items = [...this.items, seen];
    }
  }

  /** The model writes a title after the first turn; it is fetched when it may be there. */
  async #awaitTitle(): Promise<void> {
    if (this.temporary) return;
    for (const ms of [0, 700, 1500, 3000, 6000]) {
      await new Promise((resolve) => setTimeout(resolve, ms));
      const now = await json<Conversation>(this.path).catch(() => null);
      if (!now) return;
      this.conversation = now;
      this.changed(now);
      if (now.title) return tell({ kind: 'list' });
    }
  }

  /** Stops the answer here and in the engine. What was said stays. */
  async stop(): Promise<void> {
    const live = this.live;
    if (!live || live.stopping) return;
    live.stopping = true;
    if (live.message) await this.#cancel(live); // else once it has a name
  }

  async #cancel(live: Live): Promise<void> {
    await json(`${this.path}/messages/${live.message}/cancel`, { method: 'POST' }).catch(() => {
      live.stopping = false;
    });
  }

  /** The versions of a message, and which one is shown. */
  versionsOf(id: string): { all: string[]; index: number } {
    const all = versions(this.nodes, id);
    return { all, index: Math.max(0, all.indexOf(id)) };
  }

  /** Shows the branch that goes through a message. */
  async show(id: string): Promise<void> {
    if (this.busy || !this.conversation) return;
    const leaf = newestLeaf(this.nodes, id);
    this.conversation = await json<Conversation>(this.path, { body: { current_leaf: leaf } });
    await this.refresh();
    tell({ kind: 'chat', conversation: this.conversation.id });
  }

  async change(change: { title?: string; pinned?: boolean; model?: string }): Promise<void> {
    if (change.model !== undefined) this.model = change.model;
    if (!this.conversation) return;
    this.conversation = await json<Conversation>(this.path, { body: change });
    this.changed(this.conversation);
    tell({ kind: 'list' });
  }

  /** Keeps the settings with the conversation, or for the first message of a new one. */
  async keepSettings(): Promise<void> {
    if (!this.conversation) return;
    const body = { context_policy: policyOf(this.settings), metadata: toMetadata(this.settings, this.conversation.metadata) };
    this.conversation = await json<Conversation>(this.path, { body });
  }

  /** Lets go of the stream, when another conversation is shown. */
  leave(): void {
    this.live?.leave();
    this.live = null;
  }
}
