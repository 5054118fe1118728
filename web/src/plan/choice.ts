import type { Choice, PlanData, Values } from './sheet';
import { plan } from './sheet';

/** A slider over the values of one cell. */
export interface Slider {
  cell: string;
  label: string;
  least: number;
  most: number;
  /** Steps grow with the value. */
  log?: boolean;
}

export const sliders: Slider[] = [
  { cell: 'rate', label: 'Requests/s at peak', least: 1, most: 100_000, log: true },
  { cell: 'swing', label: 'Peak over trough', least: 1, most: 20 },
  { cell: 'prompt', label: 'Prompt tokens', least: 50, most: 100_000, log: true },
  { cell: 'output', label: 'Output tokens', least: 10, most: 10_000, log: true },
  { cell: 'hit', label: 'Prefix-hit rate', least: 0, most: 1 },
  { cell: 'ttft', label: 'TTFT objective', least: 0.1, most: 10, log: true },
  { cell: 'tpot', label: 'TPOT objective', least: 0.005, most: 0.2, log: true },
  { cell: 'percentile', label: 'Percentile', least: 0.5, most: 0.999 },
];

const steps = 200;

/** Where on a slider, 0 to 200, a value stands. */
export function position(s: Slider, value: number): number {
  const share = s.log ? Math.log(value / s.least) / Math.log(s.most / s.least) : (value - s.least) / (s.most - s.least);
  return Math.round(steps * Math.min(1, Math.max(0, share)));
}

/** The value at a place of a slider, with three digits. */
export function valueAt(s: Slider, place: number): number {
  const share = place / steps;
  const value = s.log ? s.least * (s.most / s.least) ** share : s.least + (s.most - s.least) * share;
  return Number(value.toPrecision(3));
}

/** Writes a choice as it stands in an address. */
export function toAddress({ names, given }: Choice): string {
  const query = new URLSearchParams(Object.entries(names).filter(([, v]) => v) as [string, string][]);
  for (const [name, value] of Object.entries(given)) query.set(name, String(value));
  return query.toString();
}

/** Reads a choice from an address; what it does not name is as in the data, what is unknown is left out. */
export function fromAddress(data: PlanData, address: string): Choice {
  const choice: Choice = { names: { ...data.names }, given: { ...data.given } };
  for (const [name, value] of new URLSearchParams(address)) {
    if (name === 'model' && value in data.catalog.models) choice.names.model = value;
    else if (name === 'device' && value in data.catalog.devices) choice.names.device = value;
    else if (name === 'weights' && value in data.catalog.weights) choice.names.weights = value;
    else if (name === 'kv' && value in data.catalog.kv) choice.names.kv = value;
    else if (data.sheet.cells.some((c) => c.name === name) && value !== '' && Number(value) >= 0) choice.given[name] = Number(value);
  }
  return choice;
}

/** The command that prints the same plan. */
export function command({ names, given }: Choice): string {
  const flags = Object.entries(names).filter(([, v]) => v).map(([k, v]) => `--${k} ${v}`);
  const set = Object.entries(given).map(([k, v]) => `${k}=${v}`).join(',');
  return ['parley plan', ...flags, ...(set ? [`--set ${set}`] : [])].join(' ');
}

/** The percentile of the time to first token over hit rates, for a fleet that was sized for the chosen one. */
export function cliff(data: PlanData, choice: Choice, hits: number[]): number[] {
  const sized = plan(data, choice).values;
  const given: Values = { ...choice.given, replicas_peak: sized.replicas_peak!, peak: sized.peak! };
  return hits.map((hit) => plan(data, { names: choice.names, given: { ...given, hit } }).values.ttft_tail!);
}

/** One way to serve: a model, its weights, and the GPUs of a replica with which it costs least. */
export interface Way {
  model: string;
  weights: string;
  gpus: number;
  quality: number;
  /** Seconds of a whole answer, and dollars of a million output tokens. */
  latency: number;
  cost: number;
  frontier: boolean;
}

/** All models of known quality on the chosen device and load; a way is on the frontier if no other is as good in all three. */
export function ways(data: PlanData, choice: Choice): Way[] {
  const found: Omit<Way, 'frontier'>[] = [];
  for (const [model, shape] of Object.entries(data.catalog.models)) {
    if (!shape.quality) continue;
    for (const weights of ['fp16', 'fp8']) {
      const sizes = [1, 2, 4, 8, 16].map((tp) => plan(data, { names: { ...choice.names, model, weights }, given: { ...choice.given, tp, pp: 1 } }));
      const cheapest = sizes.filter((r) => r.attainable).sort((a, b) => a.values.cost_served! - b.values.cost_served!)[0];
      if (!cheapest) continue;
      const v = cheapest.values;
      found.push({ model, weights, gpus: v.gpus!, quality: v.quality!, latency: v.ttft_tail! + v.output! * v.tpot_mean!, cost: v.cost_served! });
    }
  }
  const beats = (a: Omit<Way, 'frontier'>, b: Omit<Way, 'frontier'>): boolean =>
    a.quality >= b.quality && a.latency <= b.latency && a.cost <= b.cost && (a.quality > b.quality || a.latency < b.latency || a.cost < b.cost);
  return found.map((w) => ({ ...w, frontier: !found.some((o) => beats(o, w)) }));
}
