/** Short messages at the edge of the page, perhaps with something to do about them. */
export interface Toast {
  id: number;
  text: string;
  action?: { label: string; run: () => void };
}

const shownMs = 8000;
const actionMs = 20_000; // to read it, decide, and reach the button

class Toasts {
  list = $state<Toast[]>([]);
  #next = 1;

  show(text: string, action?: Toast['action'], ms = action ? actionMs : shownMs): void {
    const id = this.#next++;
    this.list = [...this.list.slice(-2), { id, text, action }];
    setTimeout(() => this.dismiss(id), ms);
  }

  dismiss(id: number): void {
    this.list = this.list.filter((t) => t.id !== id);
  }
}

export const toasts = new Toasts();
