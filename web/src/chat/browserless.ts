/** What the page's state asks of a browser when it is made, where there is none: an empty memory, a narrow window. */
Object.assign(globalThis, {
  localStorage: { getItem: () => null },
  matchMedia: () => ({ matches: false }),
  location: { pathname: '/' },
  BroadcastChannel: class {},
});
