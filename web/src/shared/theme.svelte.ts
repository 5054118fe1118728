export type Theme = 'light' | 'dark' | 'system';

const name = 'parley.theme';

class ThemeChoice {
  current = $state<Theme>((localStorage.getItem(name) as Theme | null) ?? 'system');

  choose(theme: Theme): void {
    this.current = theme;
    if (theme === 'system') {
      localStorage.removeItem(name);
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem(name, theme);
      document.documentElement.dataset.theme = theme;
    }
  }
}

export const theme = new ThemeChoice();
