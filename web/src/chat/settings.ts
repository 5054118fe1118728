/** What is set for one conversation: kept in its metadata, sent with every turn. */
import type { Policy } from '../shared/api';

/** What happens when a chat outgrows the context: as the server knows it, or the page's own: the middle fades while the text grows. */
export type Outgrown = Policy | 'slide';

export interface Settings {
  system: string;
  temperature: number | null;
  top_p: number | null;
  max_tokens: number | null;
  seed: number | null;
  policy: Outgrown;
}

/** How many of the first tokens stay in view while the middle fades. */
export const sinkTokens = 64;

/** The policy that the server is told. */
export const policyOf = (settings: Settings): Policy => (settings.policy === 'slide' ? 'refuse' : settings.policy);

export const standard: Settings = { system: '', temperature: 0.7, top_p: null, max_tokens: null, seed: null, policy: 'drop' };

/** Metadata holds at most 512 characters for each name, so a long prompt goes under several. */
const pieceLength = 512;
const piecesMax = 12;
export const systemMax = pieceLength * piecesMax;

const parametersName = 'parley.parameters';
const systemName = (piece: number): string => (piece === 0 ? 'parley.system' : `parley.system.${piece}`);

type Parameters = Pick<Settings, 'temperature' | 'top_p' | 'max_tokens' | 'seed'> & { slide?: boolean };

/** The metadata that keeps settings, beside what others keep there. */
export function toMetadata(settings: Settings, others: Record<string, string>): Record<string, string> {
  const kept = Object.fromEntries(Object.entries(others).filter(([name]) => !name.startsWith('parley.')));
  const { temperature, top_p, max_tokens, seed } = settings;
  kept[parametersName] = JSON.stringify({ temperature, top_p, max_tokens, seed, slide: settings.policy === 'slide' || undefined } satisfies Parameters);
  const characters = [...settings.system];
  for (let i = 0; i * pieceLength < characters.length && i < piecesMax; i++) {
    kept[systemName(i)] = characters.slice(i * pieceLength, (i + 1) * pieceLength).join('');
  }
  return kept;
}

export function fromMetadata(metadata: Record<string, string>, policy: Policy): Settings {
  let parameters: Partial<Parameters> = {};
  try {
    parameters = JSON.parse(metadata[parametersName] ?? '{}') as Partial<Parameters>;
  } catch {
    // Another program's value under our name: the standard it is.
  }
  let system = '';
  for (let i = 0; i < piecesMax; i++) system += metadata[systemName(i)] ?? '';
  const { slide, ...kept } = parameters;
  return { ...standard, ...kept, system, policy: slide ? 'slide' : policy };
}

/** The members of a turn's request that settings give. */
export function toRequest(settings: Settings): Record<string, unknown> {
  const { temperature, top_p, max_tokens, seed, system } = settings;
  const attention_sink_tokens = settings.policy === 'slide' ? sinkTokens : null;
  const members = { temperature, top_p, max_tokens, seed, attention_sink_tokens, instructions: system || null };
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null));
}
