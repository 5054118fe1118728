import { Failure, json, request, whenRefused } from '../shared/api';
import { eventsOf } from '../shared/sse';
import type { Picture, Point } from './api';

/** The parts of the page, in the order of the keys 1, 2, … */
const all = [
  { id: 'now', title: 'Now' },
  { id: 'fleet', title: 'Fleet' },
  { id: 'requests', title: 'Requests' },
  { id: 'keys', title: 'Keys', needs: 'keys' },
  { id: 'prefix', title: 'Prefixes', needs: 'fleet' },
] as const;

export type Section = (typeof all)[number]['id'];

/** What this server has beyond what every one has. */
export interface Parts {
  keys: boolean;
  fleet: boolean;
}

const liveKept = 120; // seconds of single pictures, for what is drawn beside numbers
const historyEveryMs = 15_000;

/** What the page knows of the server. */
class Operations {
  picture = $state.raw<Picture | null>(null);
  /** The latest seconds, oldest first. */
  lately = $state.raw<Picture[]>([]);
  /** The last hour, oldest first. */
  history = $state.raw<Point[]>([]);
  connected = $state(false);
  /** Why nothing can be shown; empty if all is well. */
  refused = $state('');
  wantsKey = $state(false);
  section = $state<Section>('now');
  parts = $state.raw<Parts>({ keys: false, fleet: false });
  readonly sections = $derived(all.filter((s) => !('needs' in s) || this.parts[s.needs]));
  /** Set to have the cursor put where requests are sought. */
  seeking = $state(false);
  /** What follows the section in the address, such as a request's id. */
  detail = $state('');

  start(): void {
    whenRefused(() => (this.wantsKey = true));
    this.readAddress();
    addEventListener('hashchange', () => this.readAddress());
    void json<Parts>('/admin/api/about').then((parts) => (this.parts = parts)).catch(() => undefined);
    void this.follow();
    void this.lookBack();
  }

  readAddress(): void {
    const [id, ...rest] = location.hash.slice(1).split('/');
    this.section = all.find((s) => s.id === id)?.id ?? 'now';
    this.detail = decodeURIComponent(rest.join('/'));
  }

  open(section: Section, detail = ''): void {
    location.hash = detail ? `${section}/${encodeURIComponent(detail)}` : section;
  }

  /** Follows the live numbers for as long as the page is open. */
  private async follow(): Promise<void> {
    for (;;) {
      try {
        const response = await request('/admin/api/live');
        for await (const event of eventsOf(response)) this.show(JSON.parse(event.data) as Picture);
      } catch (err) {
        if (err instanceof Failure && (err.status === 401 || err.status === 403)) {
          this.refused = err.message;
          return;
        }
      }
      this.connected = false;
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }

  private show(picture: Picture): void {
    this.picture = picture;
    this.lately = [...this.lately.slice(-(liveKept - 1)), picture];
    this.connected = true;
    this.refused = '';
  }

  private async lookBack(): Promise<void> {
    for (;;) {
      try {
        this.history = (await json<{ data: Point[] }>('/admin/api/history?step=15')).data;
      } catch (err) {
        if (err instanceof Failure && (err.status === 401 || err.status === 403)) return;
      }
      await new Promise((resolve) => setTimeout(resolve, historyEveryMs));
    }
  }
}

export const ops = new Operations();
