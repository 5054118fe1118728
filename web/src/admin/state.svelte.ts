import { Failure, json, request, whenRefused } from '../shared/api';
import { session, useTokenOfAddress, type Credential, type Session } from '../shared/session';
import { eventsOf } from '../shared/sse';
import type { Past, Picture } from './api';

/** The parts of the page, in the order of the keys 1, 2, … 9, 0 */
const all = [
  { id: 'now', title: 'Now' },
  { id: 'fleet', title: 'Fleet' },
  { id: 'models', title: 'Models', needs: 'models' },
  { id: 'requests', title: 'Requests' },
  { id: 'usage', title: 'Usage', needs: 'usage' },
  { id: 'keys', title: 'Keys', needs: 'keys' },
  { id: 'people', title: 'People', needs: 'keys' },
  { id: 'safety', title: 'Safety' },
  { id: 'prefix', title: 'Prefixes' },
  { id: 'audit', title: 'Audit', needs: 'audit' },
  { id: 'plan', title: 'Plan' },
  { id: 'scale', title: 'Scaling', needs: 'fleet' },
  { id: 'server', title: 'Server' },
  { id: 'help', title: 'Help' },
] as const;

/** All that a key holder sees who has no right to run the server. */
const own = [{ id: 'mine', title: 'My usage' }] as const;

/** What an admin of an organisation sees as well. */
const ofOrganisation = [...own, { id: 'people', title: 'People' }] as const;

export type Section = (typeof all)[number]['id'] | 'mine';

/** What this server has beyond what every one has. */
export interface Parts {
  keys: boolean;
  fleet: boolean;
  usage: boolean;
  audit: boolean;
  /** Whether the server has a model folder. */
  models: boolean;
  /** What prices and budgets are in. */
  currency: string;
}

const liveKept = 120; // seconds of single pictures, for what is drawn beside numbers
const historyEveryMs = 15_000;

/** How far charts look back, by what the server calls it. */
export const ranges = { '15m': '15 minutes', '1h': 'hour', '6h': '6 hours', '24h': '24 hours', '7d': '7 days', '30d': '30 days' } as const;

export type Range = keyof typeof ranges;

/** What the page knows of the server. */
class Operations {
  picture = $state.raw<Picture | null>(null);
  /** The latest seconds, oldest first. */
  lately = $state.raw<Picture[]>([]);
  /** What charts show. */
  past = $state.raw<Past>({ from: 0, until: 0, step: 15, bounds: [], points: [] });
  connected = $state(false);
  /** Why nothing can be shown; empty if all is well. */
  refused = $state('');
  /** Whether the sign-in dialog is open. */
  wantsKey = $state(false);
  session = $state.raw<Session | null>(null);
  /** What the server says of what was signed in with, or that no user is signed in. */
  refusal = $state('');
  section = $state<Section>('now');
  parts = $state.raw<Parts>({ keys: false, fleet: false, usage: false, audit: false, models: false, currency: 'usd' });
  /** Whether the key that was entered is a good one without the right to run the server. */
  holder = $state(false);
  readonly sections: readonly { id: Section; title: string }[] = $derived(this.holder ? (this.session?.user?.role === 'org-admin' ? ofOrganisation : own) : all.filter((s) => !('needs' in s) || this.parts[s.needs]));
  /** Set to have the cursor put where requests are sought. */
  seeking = $state(false);
  /** What follows the section in the address, such as a request's id. */
  detail = $state('');
  /** What follows it after a question mark: how the section is shown. */
  query = $state.raw(new URLSearchParams());
  readonly range = $derived<Range>(((r: string | null) => (r !== null && r in ranges ? (r as Range) : '1h'))(this.query.get('range')));

  async start(): Promise<void> {
    whenRefused((failure) => {
      this.refusal = failure.message;
      this.wantsKey = true;
    });
    this.readAddress();
    addEventListener('hashchange', () => this.readAddress());
    await useTokenOfAddress();
    void this.learnSession();
    void json<Parts>('/admin/api/about').then((parts) => (this.parts = parts)).catch(() => undefined);
    void this.follow();
    $effect.root(() => {
      $effect(() => this.lookBack(this.range));
    });
  }

  async signIn(credential: Credential): Promise<void> {
    try {
      await session.open(credential);
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      this.refusal = err.message;
      return;
    }
    location.reload();
  }

  async signOut(): Promise<void> {
    await session.close();
    location.reload();
  }

  /** Learns as whom this page is signed in. */
  async learnSession(): Promise<void> {
    this.session = await session.show().catch(() => null);
  }

  readAddress(): void {
    const [path, query] = location.hash.slice(1).split('?', 2);
    const [id, ...rest] = path!.split('/');
    if (query !== this.query.toString()) this.query = new URLSearchParams(query);
    this.section = this.holder ? (id === 'people' ? 'people' : 'mine') : (all.find((s) => s.id === id)?.id ?? 'now');
    this.detail = decodeURIComponent(rest.join('/'));
  }

  /** The address of a section of the page. */
  address(section: Section, detail = '', query: Record<string, string> = {}): string {
    const kept = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString();
    return `#${[section, ...(detail ? detail.split('/') : [])].map(encodeURIComponent).join('/')}${kept ? `?${kept}` : ''}`;
  }

  open(section: Section, detail = '', query: Record<string, string> = {}): void {
    location.hash = this.address(section, detail, query);
  }

  /** Shows the section in another way, without a step in the browser's history. */
  refine(query: Record<string, string>): void {
    history.replaceState(null, '', this.address(this.section, this.detail, { ...Object.fromEntries(this.query), ...query }));
    this.readAddress();
  }

  /** Follows the live numbers for as long as the page is open. */
  private async follow(): Promise<void> {
    for (;;) {
      try {
        const response = await request('/admin/api/live');
        for await (const event of eventsOf(response)) this.show(JSON.parse(event.data) as Picture);
      } catch (err) {
        if (err instanceof Failure && (err.status === 401 || err.status === 403)) {
          await this.turnedAway(err);
          return;
        }
      }
      this.connected = false;
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }

  /** Shows a key holder their own, and other visitors why there is nothing to see. */
  private async turnedAway(err: Failure): Promise<void> {
    if (err.status === 403) {
      this.holder = await json('/admin/api/organization/me').then(() => true, () => false);
      if (this.holder) return this.readAddress();
    }
    this.refused = err.message;
  }

  private show(picture: Picture): void {
    this.picture = picture;
    this.lately = [...this.lately.slice(-(liveKept - 1)), picture];
    this.connected = true;
    this.refused = '';
  }

  /** Asks for what charts show until the returned function is called. */
  private lookBack(range: Range): () => void {
    let over = false;
    const load = async (): Promise<void> => {
      try {
        const told = await json<{ from: number; until: number; step_seconds: number; ttft_bounds: number[]; data: Past['points'] }>(`/admin/api/history?range=${range}`);
        if (!over) this.past = { from: told.from, until: told.until, step: told.step_seconds, bounds: told.ttft_bounds, points: told.data };
      } catch (err) {
        if (err instanceof Failure && (err.status === 401 || err.status === 403)) stop();
      }
    };
    const timer = setInterval(() => void load(), historyEveryMs);
    const stop = (): void => {
      over = true;
      clearInterval(timer);
    };
    void load();
    return stop;
  }
}

export const ops = new Operations();
