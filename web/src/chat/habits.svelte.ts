/** What is chosen for this browser, whatever the chat. */

const enterName = 'parley.enter';

class Habits {
  /** What Enter does in the message box; Ctrl+Enter sends in any case. Phones always make a line. */
  enter = $state<'send' | 'line'>(localStorage.getItem(enterName) === 'line' ? 'line' : 'send');

  chooseEnter(what: 'send' | 'line'): void {
    this.enter = what;
    if (what === 'line') localStorage.setItem(enterName, what);
    else localStorage.removeItem(enterName);
  }

  /** Whether a key that was pressed sends what was typed. */
  sends(event: KeyboardEvent): boolean {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return false;
    if (event.ctrlKey || event.metaKey) return true;
    return this.enter === 'send' && !matchMedia('(pointer: coarse)').matches;
  }
}

export const habits = new Habits();
