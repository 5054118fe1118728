/**
 * Colours code, line by line. A line needs nothing but the state that the one
 * before it left, so code that is still being written costs one line at a time.
 */

export type Kind = 'keyword' | 'string' | 'number' | 'comment' | 'name' | '';

export interface Span {
  kind: Kind;
  text: string;
}

/** What is open at the end of a line: the mark that closes it, and its kind. */
export interface State {
  closer: string;
  kind: Kind;
}

export const begin: State = { closer: '', kind: '' };

interface Language {
  keywords: Set<string>;
  /** What begins a comment that ends with its line. */
  line: string[];
  /** Pairs of marks around comments and strings that may go over lines. */
  spans: [open: string, close: string, kind: Kind][];
  /** Marks around strings that end with their line. */
  quotes: string;
  anyCase?: boolean;
}

const words = (text: string): Set<string> => new Set(text.split(' '));
const slashes: [string, string, Kind] = ['/*', '*/', 'comment'];

const c: Language = {
  keywords: words(
    'auto bool boolean break byte case catch char class const constexpr continue default delete do double else enum explicit export extends extern false final finally float for friend goto if implements import inline instanceof int interface internal long namespace new null nullptr operator out override package private protected public readonly ref register return sealed short signed sizeof static static_cast string struct super switch template this throw throws true try typedef typename union unsigned using var virtual void volatile while',
  ),
  line: ['//', '#include', '#define', '#if', '#endif', '#else', '#pragma'],
  spans: [slashes],
  quotes: '"\'',
};

const js: Language = {
  keywords: words(
    'abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends false finally for from function get if implements import in infer instanceof interface is keyof let namespace never new null number of private protected public readonly return satisfies set static string super switch this throw true try type typeof undefined unknown var void while yield',
  ),
  line: ['//'],
  spans: [slashes, ['`', '`', 'string']],
  quotes: '"\'',
};

const python: Language = {
  keywords: words(
    'False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield',
  ),
  line: ['#'],
  spans: [
    ['"""', '"""', 'string'],
    ["'''", "'''", 'string'],
  ],
  quotes: '"\'',
};

const go: Language = {
  keywords: words(
    'any bool break byte case chan comparable const continue default defer else error fallthrough false float32 float64 for func go goto if import int int32 int64 interface iota map nil package range return rune select string struct switch true type uint uint32 uint64 uint8 var',
  ),
  line: ['//'],
  spans: [slashes, ['`', '`', 'string']],
  quotes: '"\'',
};

const rust: Language = {
  keywords: words(
    'as async await bool break char const continue crate dyn else enum extern f32 f64 false fn for i32 i64 if impl in let loop match mod move mut pub ref return self Self static str String struct super trait true type u32 u64 u8 unsafe use usize vec where while',
  ),
  line: ['//'],
  spans: [slashes],
  quotes: '"',
};

const shell: Language = {
  keywords: words('case cd do done echo elif else esac exit export fi for function if in local read return set shift sudo then unset until while'),
  line: ['#'],
  spans: [],
  quotes: '"\'',
};

const sql: Language = {
  keywords: words(
    'add all alter and as asc between by case cast check column constraint create cross database default delete desc distinct drop else end exists false foreign from full group having in index inner insert into is join key left like limit not null offset on or order outer primary references returning right select set table then true union unique update using values view when where with',
  ),
  line: ['--'],
  spans: [slashes],
  quotes: "'\"",
  anyCase: true,
};

const markup: Language = { keywords: new Set(), line: [], spans: [['<!--', '-->', 'comment']], quotes: '"\'' };
const css: Language = { keywords: words('@media @import @keyframes @layer @supports !important auto none inherit initial var'), line: [], spans: [slashes], quotes: '"\'' };
const data: Language = { keywords: words('true false null yes no on off'), line: ['#', '//'], spans: [], quotes: '"\'' };

const languages: Record<string, Language> = {};
for (const [names, language] of [
  ['c cpp c++ cc h hpp java kotlin kt csharp cs c# swift scala dart php glsl cuda', c],
  ['js javascript jsx ts typescript tsx mjs svelte vue', js],
  ['py python python3', python],
  ['go golang', go],
  ['rs rust', rust],
  ['sh bash zsh shell console fish dockerfile makefile make', shell],
  ['sql sqlite postgres psql mysql', sql],
  ['html xml svg xhtml', markup],
  ['css scss less', css],
  ['json jsonc yaml yml toml ini', data],
] as const) {
  for (const name of names.split(' ')) languages[name] = language;
}

/** Whether there are rules for a language. */
export const known = (name: string): boolean => name.toLowerCase() in languages;

/** Colours one line that begins in a state, and returns the one it ends in. */
export function highlightLine(name: string, line: string, from: State): { spans: Span[]; state: State } {
  const language = languages[name.toLowerCase()];
  const spans: Span[] = [];
  const add = (kind: Kind, text: string): void => {
    const last = spans.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text) spans.push({ kind, text });
  };
  if (!language) {
    add('', line);
    return { spans, state: begin };
  }
  let at = 0;
  let state = from;
  while (at < line.length) {
    if (state.closer) {
      const end = line.indexOf(state.closer, at);
      const to = end < 0 ? line.length : end + state.closer.length;
      add(state.kind, line.slice(at, to));
      if (end >= 0) state = begin;
      at = to;
      continue;
    }
    const opened = language.spans.find(([open]) => line.startsWith(open, at));
    if (opened) {
      add(opened[2], opened[0]);
      at += opened[0].length;
      state = { closer: opened[1], kind: opened[2] };
      continue;
    }
    const [kind, length] = token(language, line, at);
    add(kind, line.slice(at, at + length));
    at += length;
  }
  return { spans, state };
}

const stringIn: Record<string, RegExp> = { '"': /"(?:\\.|[^"\\])*"?/y, "'": /'(?:\\.|[^'\\])*'?/y };
const number = /(?:0[xob][\da-f_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\w*/iy;
const word = /[@!]?[\p{L}_$][\p{L}\p{N}_$]*/uy;

function match(pattern: RegExp, line: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(line)?.[0] ?? '';
}

/** The kind and length of what stands at a place, outside comments and strings that go over lines. */
function token(language: Language, line: string, at: number): [Kind, number] {
  const before = at === 0 ? ' ' : line[at - 1]!;
  if (language.line.some((mark) => line.startsWith(mark, at)) && (line[at] !== '#' || /\s/.test(before))) return ['comment', line.length - at];
  if (language.quotes.includes(line[at]!)) {
    const text = match(stringIn[line[at]!]!, line, at);
    const isKey = language === data && /^\s*:/.test(line.slice(at + text.length));
    return [isKey ? 'name' : 'string', text.length];
  }
  const digits = /\w/.test(before) ? '' : match(number, line, at);
  if (digits) return ['number', digits.length];
  const name = match(word, line, at);
  if (!name) return ['', 1];
  if (language.keywords.has(language.anyCase ? name.toLowerCase() : name)) return ['keyword', name.length];
  const after = line.slice(at + name.length);
  const isTag = language === markup && /[</]/.test(before);
  const isKey = (language === data || language === css) && /^\s*:/.test(after);
  return [isTag || isKey || /^\s*\(/.test(after) ? 'name' : '', name.length];
}
