import { untilQuiet } from '../shared/takeover';

/** The parts that come when one can type already. */
class Later {
  parts = $state.raw<typeof import('./parts') | null>(null);
  #loading: Promise<void> | undefined;

  /** Loads the parts: at once where they are wanted, else when the user is not typing. */
  async load(wanted: boolean): Promise<void> {
    if (!wanted) await untilQuiet();
    await (this.#loading ??= this.#load());
    if (!wanted) await untilQuiet();
    await this.parts!.loadReader();
  }

  async #load(): Promise<void> {
    this.parts = await import('./parts');
  }
}

export const later = new Later();
