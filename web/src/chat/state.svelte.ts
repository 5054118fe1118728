/** What the whole page knows: models, the list of conversations, and which one is shown. */
import { Failure, json, request, whenRefused, type Conversation, type Hit, type List, type Model } from '../shared/api';
import { invitationOfAddress, session, useTokenOfAddress, type Credential, type Session } from '../shared/session';
import { toasts } from '../shared/toasts.svelte';
import { Chat } from './chat.svelte';
import { forgetDrafts } from './drafts';
import { tell, whenTold } from './tabs';

const modelName = 'parley.model';
const pageSize = 50;

/** Whether the list of chats has room beside the chat. Where it has none, it covers the chat. */
const wide = matchMedia('(min-width: 48rem)');

/** The conversation that the address names. */
function shownId(): string | null {
  return /^\/c\/([^/]+)$/.exec(location.pathname)?.[1] ?? null;
}

class App {
  models = $state.raw<Model[]>([]);
  pinned = $state.raw<Conversation[]>([]);
  others = $state.raw<Conversation[]>([]);
  more = $state(false);
  chat = $state.raw(this.#newChat(shownId()));
  /** Why the list cannot be shown: no store, no key, no server. */
  failure = $state.raw<Failure | null>(null);
  /** Whether the sign-in dialog is open. */
  wantsKey = $state(false);
  accountOpen = $state(false);
  /** Whether the form of the first account is open. */
  firstOpen = $state(false);
  /** The token of an invitation that is to be accepted; empty for none. */
  invitation = $state('');
  session = $state.raw<Session | null>(null);
  /** What the server says of what was signed in with, or that no user is signed in. */
  refusal = $state('');
  sidebar = $state(wide.matches);
  /** Whether the list was open when the window became narrow. */
  #covered = false;
  settingsOpen = $state(false);
  helpOpen = $state(false);
  searching = $state(false);
  query = $state('');
  hits = $state.raw<Hit[] | null>(null);

  #newChat(id: string | null): Chat {
    return new Chat(id, localStorage.getItem(modelName) ?? '', (c) => this.#noted(c));
  }

  /** Asks for all that is to be shown, all at once. What was pressed before is pressed again when the models are known. */
  async start(pressAgain: () => void): Promise<void> {
    whenRefused((failure) => {
      this.refusal = failure.message;
      this.wantsKey = !this.invitation;
    });
    whenTold((news) => {
      if (news.kind === 'list') void this.list();
      else if (news.conversation === this.chat.conversation?.id && !this.chat.busy) void this.chat.refresh();
      else void this.list();
    });
    addEventListener('popstate', () => this.#route());
    wide.addEventListener('change', () => this.#refit());
    this.invitation = invitationOfAddress();
    await useTokenOfAddress();
    void this.list();
    void this.chat.load().then(() => this.#title());
    await this.loadModels();
    pressAgain();
  }

  /** Signs in, and takes up what was held up before. */
  async signIn(credential: Credential): Promise<void> {
    this.refusal = '';
    let opened: Session;
    try {
      opened = await session.open(credential);
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      this.refusal = err.message;
      return;
    }
    await this.welcome(opened);
  }

  /** Takes up what was held up until a session was opened. */
  async welcome(opened: Session): Promise<void> {
    this.session = opened;
    this.refusal = '';
    this.wantsKey = false;
    await Promise.all([this.loadModels(), this.list()]);
    if (this.refusal) return;
    const { chat } = this;
    if (chat.failure) await chat.load();
    if (chat.unsent?.failure?.unknownKey) void chat.sendAgain(chat.unsent.message);
  }

  /** Signs out. Nothing of what its user wrote stays in this browser. */
  async signOut(): Promise<void> {
    await session.close();
    await this.leave();
  }

  /** Forgets what the user wrote, whose session has ended. */
  async leave(): Promise<void> {
    forgetDrafts();
    location.replace('/');
  }

  /** Learns as whom this page is signed in. */
  async learnSession(): Promise<void> {
    this.session = await session.show().catch(() => null);
  }

  async loadModels(): Promise<void> {
    try {
      this.models = (await json<{ data: Model[] }>('/v1/models')).data;
    } catch {
      return; // the list of conversations says why
    }
    const served = this.models.some((m) => m.id === this.chat.model && !m.unavailable);
    if (!this.chat.model || (!served && !this.chat.conversation)) { // a conversation of another client may name no model
      this.chat.model = this.models.find((m) => !m.unavailable)?.id ?? '';
    }
  }

  /** Closes the list where it would cover the chat, and opens it again where it was closed for that reason. */
  #refit(): void {
    if (!wide.matches) {
      this.#covered = this.sidebar;
      this.sidebar = false;
    } else if (this.#covered) this.sidebar = true;
  }

  modelNamed(id: string | undefined): Model | undefined {
    return this.models.find((m) => m.id === id);
  }

  /** Whether a text alone is longer than the context of the chat shown, and its middle is not dropped. A token has rarely more than four characters. */
  neverFits(text: string, model: string): boolean {
    const context = this.modelNamed(model)?.max_model_len ?? 0;
    return context > 0 && this.chat.settings.policy !== 'slide' && text.length / 4 >= context;
  }

  async list(): Promise<void> {
    try {
      const [pinned, others] = await Promise.all([
        json<List<Conversation>>('/v1/conversations?pinned=true&limit=100'),
        json<List<Conversation>>(`/v1/conversations?pinned=false&limit=${Math.max(pageSize, Math.min(100, this.others.length))}`),
      ]);
      this.pinned = pinned.data;
      this.others = others.data;
      this.more = others.has_more;
      this.#last = others.last_id;
      this.failure = null;
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      this.failure = err;
    }
  }

  #last = '';

  async listMore(): Promise<void> {
    const page = await json<List<Conversation>>(`/v1/conversations?pinned=false&limit=${pageSize}&after=${encodeURIComponent(this.#last)}`);
    this.others = [...this.others, ...page.data];
    this.more = page.has_more;
    this.#last = page.last_id;
  }

  /** Notes what is new of a conversation, in the address and in the list. */
  #noted(c: Conversation): void {
    if (c.id === this.chat.conversation?.id && location.pathname !== `/c/${c.id}`) history.pushState(null, '', `/c/${c.id}`);
    this.#title();
    if (c.temporary) return;
    const without = (list: Conversation[]): Conversation[] => list.filter((o) => o.id !== c.id);
    const into = (list: Conversation[]): Conversation[] => [c, ...without(list)].sort((a, b) => b.updated_at - a.updated_at);
    this.pinned = c.pinned ? into(this.pinned) : without(this.pinned);
    this.others = c.pinned ? without(this.others) : into(this.others);
  }

  #title(): void {
    const title = this.chat.conversation?.title;
    document.title = title ? `${title} · Parley` : 'Parley';
  }

  #route(): void {
    const id = shownId();
    if (id === (this.chat.conversation?.id ?? this.chat.id)) return;
    this.#show(id);
  }

  #show(id: string | null): void {
    this.chat.leave();
    this.chat = this.#newChat(id);
    void this.loadModels();
    void this.chat.load().then(() => this.#title());
    this.#title();
  }

  open(id: string | null): void {
    const path = id ? `/c/${id}` : '/';
    if (location.pathname !== path) history.pushState(null, '', path);
    this.#show(id);
    if (!matchMedia('(min-width: 48rem)').matches) this.sidebar = false;
  }

  /** Shows a message that was found, on whichever branch it is. */
  async openHit(hit: Hit): Promise<void> {
    this.open(hit.conversation_id);
    const chat = this.chat;
    await new Promise<void>((resolve) => {
      const wait = (): unknown => (chat.loading ? requestAnimationFrame(wait) : resolve());
      requestAnimationFrame(wait);
    });
    if (!hit.message_id || this.chat !== chat) return;
    if (!chat.items.some((i) => i.id === hit.message_id)) await chat.show(hit.message_id);
    chat.reach?.(hit.message_id);
    requestAnimationFrame(() => document.getElementById(hit.message_id!)?.scrollIntoView({ block: 'center' }));
  }

  async search(query: string): Promise<void> {
    this.query = query;
    if (!query.trim()) {
      this.hits = null;
      return;
    }
    const found = await json<List<Hit>>(`/v1/conversations?q=${encodeURIComponent(query)}&group=conversation&limit=60`).catch(() => ({ data: [] }));
    if (this.query === query) this.hits = found.data;
  }

  chooseModel(id: string): void {
    localStorage.setItem(modelName, id);
    void this.chat.change({ model: id });
  }

  async change(c: Conversation, change: { title?: string; pinned?: boolean }): Promise<void> {
    if (c.id === this.chat.conversation?.id) return this.chat.change(change);
    this.#noted(await json<Conversation>(`/v1/conversations/${c.id}`, { body: change }));
    tell({ kind: 'list' });
  }

  async remove(c: Conversation): Promise<void> {
    await request(`/v1/conversations/${c.id}`, { method: 'DELETE' });
    if (c.id === (this.chat.conversation?.id ?? this.chat.id)) this.open(null);
    await this.list();
    tell({ kind: 'list' });
    toasts.show(`“${c.title || 'New chat'}” was deleted.`, { label: 'Undo', run: () => void this.restore(c) });
  }

  async restore(c: Conversation): Promise<void> {
    await request(`/v1/conversations/${c.id}/restore`, { method: 'POST' });
    await this.list();
    tell({ kind: 'list' });
    this.open(c.id);
  }

  async save(c: Conversation, format: 'json' | 'markdown'): Promise<void> {
    const response = await request(`/v1/conversations/${c.id}/export?format=${format}`);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await response.blob());
    const name = (c.title || 'conversation').replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').toLowerCase();
    link.download = `${name || 'conversation'}.${format === 'json' ? 'json' : 'md'}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  async load(file: File): Promise<void> {
    try {
      const made = await json<Conversation>('/v1/conversations/import', { body: JSON.parse(await file.text()) });
      await this.list();
      tell({ kind: 'list' });
      this.open(made.id);
    } catch (err) {
      toasts.show(err instanceof Failure && err.status !== 400 ? err.message : `${file.name} is not an export of a conversation. Choose a file that “Export as JSON” has saved.`);
    }
  }
}

export const app = new App();
