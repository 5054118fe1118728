// Before anything is painted: the theme that was chosen, if it is not the system's, and whether the fonts were loaded before.
try {
  const chosen = localStorage.getItem('parley.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  if (localStorage.getItem('parley.fonts')) document.documentElement.dataset.fonts = '';
} catch {
  // Storage is closed to us: the system's theme it is.
}
