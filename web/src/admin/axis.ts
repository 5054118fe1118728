/** Values for the grid of a scale that reaches so high: few, round, from 0 on, the last at or above it. */
export function ticksOfValue(highest: number): number[] {
  const rough = highest / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999)!;
  const ticks: number[] = [];
  for (let i = 0; ; i++) {
    ticks.push(Number((i * step).toPrecision(12)));
    if (i * step >= highest * 0.999) return ticks;
  }
}

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;
const steps = [minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 5 * day, 7 * day];

/** Round moments between two times in Unix seconds, in the time zone of the browser: about four. */
export function ticksOfTime(from: number, until: number): { at: number; text: string }[] {
  const step = steps.find((s) => (until - from) / s <= 5.5) ?? steps.at(-1)!;
  const shift = -60 * new Date(until * 1000).getTimezoneOffset();
  const margin = 0.06 * (until - from); // a label at the edge would leave the chart
  const ticks = [];
  for (let at = Math.ceil((from + shift) / step) * step - shift; at <= until; at += step)
    if (at - from > margin && until - at > margin) ticks.push({ at, text: step < day ? time(at) : date(at) });
  return ticks;
}

const time = (seconds: number): string => new Date(seconds * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
const date = (seconds: number): string => new Date(seconds * 1000).toLocaleDateString([], { day: 'numeric', month: 'short' });

/** A moment in words that fit the length of its step. */
export function clockAt(seconds: number, step: number): string {
  const at = new Date(seconds * 1000);
  if (step < minute) return at.toLocaleTimeString();
  return step < 30 * minute ? time(seconds) : `${date(seconds)}, ${time(seconds)}`;
}
