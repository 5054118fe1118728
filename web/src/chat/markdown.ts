/**
 * Markdown that grows. The text is read block by block; a block is final once
 * another one follows it, so while an answer streams only its last block is
 * read and drawn again. What is drawn are elements made one by one: no HTML of
 * a model is ever parsed as such.
 */
import { Marked, type Token, type Tokens, type TokenizerAndRendererExtension } from 'marked';
import { copy } from '../shared/clipboard';
import { begin, highlightLine, known, type State } from './highlight';
import { mathElement } from './math';

interface MathToken {
  type: 'math';
  raw: string;
  text: string;
  display: boolean;
}

function mathRule(name: string, level: 'block' | 'inline', hint: RegExp, rules: [RegExp, boolean][]): TokenizerAndRendererExtension {
  return {
    name,
    level,
    start: (text: string) => hint.exec(text)?.index,
    tokenizer(text: string) {
      for (const [rule, display] of rules) {
        const found = rule.exec(text);
        if (found) return { type: 'math', raw: found[0], text: found[1]!.trim(), display } satisfies MathToken;
      }
      return undefined;
    },
  };
}

const reader = new Marked({ gfm: true }).use({
  extensions: [
    mathRule('mathBlock', 'block', /\$\$|\\\[/, [
      [/^\$\$([^$]+?)\$\$(?:\n|$)/, true],
      [/^\\\[([\s\S]+?)\\\](?:\n|$)/, true],
    ]),
    mathRule('mathInline', 'inline', /\$|\\\(|\\\[/, [
      [/^\$\$([^$\n]+?)\$\$/, true],
      [/^\$(?!\s)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)/, false],
      [/^\\\(([\s\S]+?)\\\)/, false],
      [/^\\\[([\s\S]+?)\\\]/, true],
    ]),
  ],
});

type Drawn = Node | string;

function element<K extends keyof HTMLElementTagNameMap>(name: K, children: Drawn[] = [], properties: Partial<HTMLElementTagNameMap[K]> = {}): HTMLElementTagNameMap[K] {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

const all = (tokens: Token[] | undefined): Drawn[] => (tokens ?? []).flatMap(draw);

/** The text that an escaped one stands for: readers write &amp; where nothing is parsed again. */
function plain(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (_, name: string) => ({ amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" })[name]!);
}

function draw(token: Token): Drawn[] {
  switch (token.type) {
    case 'space':
    case 'def':
    case 'checkbox': // drawn with its item
      return [];
    case 'math':
      return [mathElement((token as unknown as MathToken).text, (token as unknown as MathToken).display)];
    case 'heading':
      // The page has headings of its own, so those of an answer begin at the third level.
      return [element(`h${Math.min(6, token.depth + 2)}` as 'h3', all(token.tokens), { className: `h${token.depth}`, dir: 'auto' })];
    case 'paragraph':
      return [element('p', all(token.tokens), { dir: 'auto' })];
    case 'blockquote':
      return [element('blockquote', all(token.tokens))];
    case 'hr':
      return [element('hr')];
    case 'code':
      return [new CodeView(token as Tokens.Code).element];
    case 'list':
      return [drawList(token as Tokens.List)];
    case 'table':
      return [drawTable(token as Tokens.Table)];
    case 'strong':
    case 'em':
    case 'del':
      return [element(token.type, all(token.tokens))];
    case 'codespan':
      return [element('code', [plain(token.text)])];
    case 'br':
      return [element('br')];
    case 'link':
      return [drawLink(token as Tokens.Link)];
    case 'image':
      return [drawLink({ ...(token as Tokens.Image), tokens: [{ type: 'text', raw: '', text: `Image: ${token.text || token.href}` }] })];
    case 'text':
      return token.tokens ? all(token.tokens) : [plain(token.text)];
    case 'escape':
      return [plain(token.text)];
    default:
      return [token.raw]; // HTML and what we do not know is shown as it was written
  }
}

function drawList(token: Tokens.List): HTMLElement {
  const items = token.items.map((item) => {
    const children = all(item.tokens);
    if (item.task) {
      const box = element('input', [], { type: 'checkbox', checked: item.checked ?? false, disabled: true });
      box.setAttribute('aria-label', item.checked ? 'done' : 'to do');
      return element('li', [box, ' ', ...children], { className: 'task' });
    }
    return element('li', children);
  });
  if (!token.ordered) return element('ul', items, { dir: 'auto' });
  return element('ol', items, { start: Number(token.start) || 1, dir: 'auto' });
}

function drawTable(token: Tokens.Table): HTMLElement {
  const cells = (row: Tokens.TableCell[], name: 'th' | 'td'): HTMLElement =>
    element(
      'tr',
      row.map((cell) => {
        const drawn = element(name, all(cell.tokens), { dir: 'auto' });
        if (cell.align) drawn.dataset.align = cell.align;
        return drawn;
      }),
    );
  const table = element('table', [element('thead', [cells(token.header, 'th')]), element('tbody', token.rows.map((row) => cells(row, 'td')))]);
  const frame = element('div', [table], { className: 'table', tabIndex: 0, role: 'group' });
  frame.setAttribute('aria-label', 'Table');
  return frame;
}

/** Only addresses that lead to other pages become links; all others are text. */
function drawLink(token: Pick<Tokens.Link, 'href' | 'tokens'>): Drawn {
  const children = all(token.tokens);
  if (!/^(https?:|mailto:)/i.test(token.href)) return element('span', children);
  return element('a', children, { href: token.href, target: '_blank', rel: 'noopener noreferrer' });
}

/** A block of code. More of the same block costs only the lines that are new. */
class CodeView {
  readonly element: HTMLElement;
  readonly language: string;
  #text = '';
  #code = element('code');
  /** How much of the text is in complete lines, and in which state they end. */
  #done = 0;
  #state: State = begin;
  #open: HTMLElement | undefined;

  constructor(token: Tokens.Code) {
    this.language = (token.lang ?? '').split(/\s/)[0]!;
    const button = element('button', ['Copy'], { type: 'button', className: 'copy' });
    button.setAttribute('aria-label', 'Copy code');
    button.addEventListener('click', async () => {
      button.textContent = (await copy(this.#text)) ? 'Copied' : 'Not copied';
      setTimeout(() => (button.textContent = 'Copy'), 1500);
    });
    const pre = element('pre', [this.#code], { tabIndex: 0 });
    pre.setAttribute('role', 'group');
    pre.setAttribute('aria-label', this.language ? `Code in ${this.language}` : 'Code');
    this.element = element('figure', [element('figcaption', [element('span', [this.language || 'text']), button]), pre], { className: 'code', dir: 'ltr' });
    this.update(token.text);
  }

  /** Reports false if the text is not a longer version of the one shown. */
  update(text: string): boolean {
    if (!text.startsWith(this.#text)) return false;
    this.#text = text;
    this.#open?.remove();
    for (let end = text.indexOf('\n', this.#done); end >= 0; end = text.indexOf('\n', this.#done)) {
      const { line, state } = this.#draw(text.slice(this.#done, end));
      line.append('\n');
      this.#code.append(line);
      this.#state = state;
      this.#done = end + 1;
    }
    this.#open = this.#draw(text.slice(this.#done)).line;
    this.#code.append(this.#open);
    return true;
  }

  #draw(text: string): { line: HTMLElement; state: State } {
    const line = element('span');
    if (!known(this.language)) {
      line.textContent = text;
      return { line, state: begin };
    }
    const { spans, state } = highlightLine(this.language, text, this.#state);
    line.append(...spans.map((s) => (s.kind ? element('span', [s.text], { className: `code-${s.kind}` }) : s.text)));
    return { line, state };
  }
}

interface Block {
  raw: string;
  nodes: Drawn[];
  code?: CodeView;
}

function drawBlock(token: Token): Block {
  if (token.type === 'code') {
    const code = new CodeView(token as Tokens.Code);
    return { raw: token.raw, nodes: [code.element], code };
  }
  return { raw: token.raw, nodes: draw(token) };
}

/** Shows a text in an element, and more of it as it comes. */
export class MarkdownView {
  #text = '';
  /** How much of the text is in blocks that are final: they stay as they are. */
  #final = 0;
  #open: Block[] = [];

  constructor(private readonly into: HTMLElement) {}

  update(said: string): void {
    const text = said.replace(/\r\n?/g, '\n'); // as the reader counts
    if (!text.startsWith(this.#text)) {
      this.into.replaceChildren();
      this.#final = 0;
      this.#open = [];
    } else if (text === this.#text && this.#open.length > 0) {
      return;
    }
    this.#text = text;
    const tokens = reader.lexer(text.slice(this.#final));
    this.#redraw(tokens);
    this.#settle();
  }

  /** Draws what differs from what is there. */
  #redraw(tokens: Token[]): void {
    const before = this.#open;
    this.#open = tokens.map((token, i) => {
      const old = before[i];
      if (!old) return drawBlock(token);
      if (old.raw === token.raw) return old;
      if (old.code && token.type === 'code' && (token.lang ?? '').split(/\s/)[0] === old.code.language && old.code.update(token.text)) {
        old.raw = token.raw;
        return old;
      }
      return drawBlock(token);
    });
    for (const [i, old] of before.entries()) {
      if (this.#open[i] !== old) for (const node of old.nodes) if (node instanceof Node) node.parentNode?.removeChild(node);
    }
    for (const [i, block] of this.#open.entries()) {
      if (before[i] !== block) this.#insert(block, i);
    }
  }

  #insert(block: Block, index: number): void {
    block.nodes = block.nodes.map((n) => (typeof n === 'string' ? document.createTextNode(n) : n));
    const next = this.#open.slice(index + 1).find((b) => b.nodes[0] instanceof Node && b.nodes[0].isConnected)?.nodes[0];
    for (const node of block.nodes) this.into.insertBefore(node as Node, (next as Node | undefined) ?? null);
  }

  /** All blocks but the last one that says something are final. */
  #settle(): void {
    let last = this.#open.length - 1;
    while (last > 0 && this.#open[last]!.nodes.length === 0) last--;
    for (const block of this.#open.splice(0, Math.max(0, last))) this.#final += block.raw.length;
  }
}
