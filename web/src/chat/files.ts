/**
 * Attached files with a message. A message is text, so a file becomes a
 * block of code whose first line names it; who shows the message finds it again.
 */

export interface Attached {
  name: string;
  text: string;
}

const bytesMax = 512 * 1024;
/** What is pasted and longer than this becomes a file, so that the question stays readable. */
export const pastedMax = 4000;

/** Reads a file as text, or says why that cannot be. */
export async function readText(file: File): Promise<Attached> {
  if (/^(image|audio|video)\//.test(file.type)) throw new Error(`${file.name} cannot be read: the models here accept only text.`);
  if (file.size > bytesMax) throw new Error(`${file.name} has ${Math.ceil(file.size / 1024)} KiB, and at most ${bytesMax / 1024} can be sent.`);
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (text.includes('\0')) throw new Error();
    return { name: file.name, text: text.replace(/\r\n?/g, '\n').replace(/\n$/, '') };
  } catch {
    throw new Error(`${file.name} is not a text file: the models here accept only text.`);
  }
}

const languages: Record<string, string> = { js: 'js', mjs: 'js', ts: 'ts', py: 'python', sh: 'bash', md: 'markdown', yml: 'yaml', rs: 'rust', htm: 'html' };

/** The message that says a text and carries files. */
export function withFiles(text: string, files: Attached[]): string {
  const blocks = files.map(({ name, text: content }) => {
    const longest = Math.max(2, ...[...content.matchAll(/`+/g)].map((run) => run[0].length));
    const fence = '`'.repeat(longest + 1);
    const ending = /\.(\w+)$/.exec(name)?.[1]?.toLowerCase() ?? '';
    const label = name.replace(/[\r\n`]/g, ' ');
    return `${fence}${languages[ending] ?? ending} file=${label}\n${content}\n${fence}`;
  });
  return [text.trim(), ...blocks].filter(Boolean).join('\n\n');
}

const block = /(?:^|\n\n)(`{3,})\w* file=([^\n]+)\n([\s\S]*?)\n\1(?=\n\n|$)/g;

/** The text and the files of a message that withFiles made. */
export function filesIn(message: string): { text: string; files: Attached[] } {
  const files: Attached[] = [];
  const text = message.replace(block, (_, _fence: string, name: string, content: string) => {
    files.push({ name, text: content });
    return '';
  });
  return { text: text.trim(), files };
}
