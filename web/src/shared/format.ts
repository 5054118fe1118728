/** How numbers and times are written, everywhere the same. */

const whole = new Intl.NumberFormat('en');

export const count = (n: number): string => whole.format(Math.round(n));

/** A number of tokens where room is scarce: 950, 1.2k, 128k. */
export function short(n: number): string {
  if (n < 1000) return String(Math.round(n));
  const thousands = n / 1000;
  return `${thousands < 10 ? thousands.toFixed(1).replace(/\.0$/, '') : Math.round(thousands)}k`;
}

/** A number of parameters: 31M, 1.7B. */
export const parameters = (n: number): string => (n >= 1e9 ? `${(n / 1e9).toFixed(1).replace(/\.0$/, '')}B` : `${Math.max(1, Math.round(n / 1e6))}M`);

/** A time: 4 ms, 0.85 s, 12.4 s, 3 min 20 s. */
export function duration(ms: number): string {
  if (ms < 1) return '< 1 ms';
  if (ms < 100) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(2)} s`;
  if (s < 60) return `${s.toFixed(1)} s`;
  return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
}

/** A time that is a guess: 4 s, 50 s, 3 min. */
export function roughly(ms: number): string {
  const s = Math.max(1, Math.round(ms / 1000));
  if (s < 20) return `${s} s`;
  return s < 90 ? `${Math.round(s / 5) * 5} s` : `${Math.round(s / 60)} min`;
}

/** Tokens per second. */
export const rate = (perSecond: number): string => `${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)} tok/s`;

/** A size: 512 B, 610 MB, 4.9 GB. */
export function bytes(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = n < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(n) / 3));
  const value = n / 1000 ** power;
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

/** A price in millionths of a unit. */
export function cost(micros: number): string {
  const units = micros / 1e6;
  return units >= 0.01 ? units.toFixed(2) : units.toPrecision(2);
}

export const percent = (part: number, all: number): string => `${all > 0 ? Math.round((100 * part) / all) : 0}%`;

/** Under which heading of a list something of that time stands. */
export function dayOf(seconds: number, now = new Date()): string {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime() / 1000;
  if (seconds >= midnight) return 'Today';
  if (seconds >= midnight - 86_400) return 'Yesterday';
  if (seconds >= midnight - 6 * 86_400) return 'This week';
  if (seconds >= midnight - 29 * 86_400) return 'This month';
  return 'Earlier';
}
