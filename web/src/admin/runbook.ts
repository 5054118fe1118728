import text from '../../../docs/runbook.md?raw';

/** A part of a line: plain, or as code or strong text. */
export interface Part {
  kind: 'text' | 'code' | 'strong';
  text: string;
}

export type Block = { kind: 'heading'; level: number; text: string } | { kind: 'line' | 'item'; parts: Part[] } | { kind: 'table'; rows: Part[][][] };

/** Reads what the runbook uses of Markdown: headings, lists, tables, code, strong text and links, which are shown as text. */
export function blocksOf(markdown: string): Block[] {
  const blocks: Block[] = [];
  let joins = false; // whether a line continues the one before
  for (const line of markdown.split('\n')) {
    const heading = /^(#+) (.*)$/.exec(line);
    const last = blocks.at(-1);
    if (heading) blocks.push({ kind: 'heading', level: heading[1]!.length, text: heading[2]! });
    else if (line.startsWith('|')) {
      const cells = line.slice(1, -1).split('|').map((c) => partsOf(c.trim()));
      if (/^\|[-|: ]+\|$/.test(line)) continue;
      if (last?.kind === 'table') last.rows.push(cells);
      else blocks.push({ kind: 'table', rows: [cells] });
    } else if (line.startsWith('* ')) blocks.push({ kind: 'item', parts: partsOf(line.slice(2)) });
    else if (line.trim() !== '') {
      const parts = partsOf(line.trim());
      if (joins && last && (last.kind === 'line' || last.kind === 'item') && parts[0]?.kind !== 'strong') last.parts.push({ kind: 'text', text: ' ' }, ...parts);
      else blocks.push({ kind: 'line', parts });
    }
    joins = line.trim() !== '' && !heading;
  }
  return blocks;
}

function partsOf(line: string): Part[] {
  const parts: Part[] = [];
  for (const m of line.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\([^)]*\)|([^`*[]+|.)/g)) {
    if (m[1] !== undefined) parts.push({ kind: 'code', text: m[1] });
    else if (m[2] !== undefined) parts.push({ kind: 'strong', text: m[2] });
    else parts.push({ kind: 'text', text: m[3] ?? m[4]! });
  }
  return parts;
}

export const runbook = blocksOf(text).slice(1); // without its title
