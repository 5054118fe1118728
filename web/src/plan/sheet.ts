/** The arithmetic of plans: the formulas come from the server, as trees. Nothing here knows what they mean. */

/** A number, the name of a cell, or an operation with its operands. */
export type Expr = number | string | [string, ...Expr[]];

export interface Cell {
  name: string;
  group: string;
  unit: string;
  title: string;
  formula?: string;
  expr?: Expr;
}

interface Bound {
  name: string;
  expr: Expr;
  sentence: string;
}

export interface Sheet {
  cells: Cell[];
  obstacles: Bound[];
  limits: Bound[];
}

export type Values = Record<string, number>;

/** Model shapes, devices and number types, each the values of some cells. */
export interface Catalog {
  models: Record<string, Values>;
  devices: Record<string, Values>;
  weights: Record<string, Values>;
  kv: Record<string, Values>;
}

/** What was chosen: names of the catalog, and cells with values of their own. */
export interface Choice {
  names: { model: string; device: string; weights?: string; kv?: string };
  given: Values;
}

export interface PlanData extends Choice {
  sheet: Sheet;
  catalog: Catalog;
}

export interface Result {
  values: Values;
  bottleneck: string;
  sentence: string;
  attainable: boolean;
}

const one: Record<string, (a: number) => number> = { floor: Math.floor, ceil: Math.ceil, ln: Math.log, exp: Math.exp };

const two: Record<string, (a: number, b: number) => number> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '<': (a, b) => Number(a < b),
  '>': (a, b) => Number(a > b),
  '>=': (a, b) => Number(a >= b),
  min: Math.min,
  max: Math.max,
  pow: Math.pow,
};

/** The largest load at which at most share of the arrivals wait longer than slack: as busy in expr.go. */
function busy(slack: number, unit: number, share: number): number {
  if (!(slack > 0) || !(share > 0)) return 0;
  if (unit === 0) return 1;
  let low = 0;
  let high = 1;
  for (let i = 0; i < 60; i++) {
    const x = (low + high) / 2;
    if (x * Math.exp((-slack * (1 - x)) / unit) <= share) low = x;
    else high = x;
  }
  return low;
}

function evaluate(e: Expr, of: (name: string) => number): number {
  if (typeof e === 'number') return e;
  if (typeof e === 'string') return of(e);
  const [op, a, b, c] = e;
  const at = (x: Expr | undefined): number => evaluate(x!, of);
  if (op === 'when') return at(a) !== 0 ? at(b) : at(c);
  if (op === 'busy') return busy(at(a), at(b), at(c));
  return b === undefined ? one[op]!(at(a)) : two[op]!(at(a), at(b));
}

const units = new WeakMap<Sheet, Map<string, Cell>>();

/** The cell of that name. */
export function cellOf(sheet: Sheet, name: string): Cell {
  let cells = units.get(sheet);
  if (!cells) units.set(sheet, (cells = new Map(sheet.cells.map((c) => [c.name, c]))));
  return cells.get(name)!;
}

/** Works out the plan for a choice. */
export function plan(data: PlanData, { names, given }: Choice): Result {
  const { sheet, catalog } = data;
  const values: Values = {
    ...catalog.models[names.model],
    ...catalog.devices[names.device],
    ...(names.weights ? catalog.weights[names.weights] : {}),
    ...(names.kv ? catalog.kv[names.kv] : {}),
    ...given,
  };
  const of = (name: string): number => (values[name] ??= evaluate(cellOf(sheet, name).expr!, of));
  for (const c of sheet.cells) of(c.name);
  const fill = (sentence: string): string => sentence.replace(/\{(\w+)\}/g, (_, name: string) => text(sheet, values, name));
  const obstacle = sheet.obstacles.find((o) => evaluate(o.expr, of) !== 0);
  if (obstacle) return { values, bottleneck: obstacle.name, sentence: fill(obstacle.sentence), attainable: false };
  const limits = sheet.limits.map((l) => ({ ...l, rate: evaluate(l.expr, of) })).filter((l) => l.rate > 0);
  const least = limits.reduce((a, b) => (b.rate < a.rate ? b : a));
  return { values, bottleneck: least.name, sentence: fill(least.sentence), attainable: true };
}

/** The names that a formula mentions, each replaced by its value. */
export function filled(sheet: Sheet, values: Values, formula: string): string {
  return formula.replace(/\b[a-z_]+\b(?!\()/g, (name) => (cellOf(sheet, name) ? text(sheet, values, name) : name));
}

/** The value of a cell as quantity.go writes it. */
export function text(sheet: Sheet, values: Values, name: string): string {
  return format(cellOf(sheet, name).unit, values[name]!);
}

export function format(unit: string, x: number): string {
  if (Number.isNaN(x)) return 'unknown';
  if (!Number.isFinite(x)) return 'unbounded';
  switch (unit) {
    case 'B':
    case 'B/s':
      return scaled(x, unit);
    case 'op/s':
      return scaled(x, 'FLOP/s');
    case 's':
      return time(x);
    case 'share':
      return `${digits(100 * x)}%`;
    case '$':
      return `$${money(x)}`;
    case '$/h':
      return `$${money(x)}/h`;
    case 'n':
      return digits(x);
  }
  return `${digits(x)} ${unit}`;
}

function scaled(x: number, unit: string): string {
  for (const [prefix, factor] of [['P', 1e15], ['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]] as const) {
    if (x >= factor) return `${digits(x / factor)} ${prefix}${unit}`;
  }
  return `${digits(x)} ${unit}`;
}

function time(s: number): string {
  if (s >= 600) return `${digits(s / 60)} min`;
  if (s >= 1 || s === 0) return `${digits(s)} s`;
  return s >= 1e-3 ? `${digits(s * 1e3)} ms` : `${digits(s * 1e6)} µs`;
}

function money(x: number): string {
  if (x >= 100 || x === 0) return grouped(x);
  return x >= 0.01 ? x.toFixed(2) : String(Number(x.toPrecision(3)));
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const grouped = (x: number): string => whole.format(Math.round(x));

function digits(x: number): string {
  if (x >= 99.95) return grouped(x);
  const exponent = x < 1e-6 ? -6 : Math.floor(Math.log10(x) + 1e-12);
  const plain = x.toFixed(Math.max(0, 2 - exponent));
  return plain.includes('.') ? plain.replace(/0+$/, '').replace(/\.$/, '') : plain;
}
