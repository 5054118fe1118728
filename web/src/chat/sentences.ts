/** Hands out a growing text sentence by sentence, each once. */
export class Sentences {
  #said = 0;
  #text = '';

  /** What has been completed since the last call; empty if nothing. */
  of(text: string): string {
    if (!text.startsWith(this.#text)) this.#said = 0;
    this.#text = text;
    const rest = text.slice(this.#said);
    const end = /^[\s\S]*[.!?…:](?=\s)|^[\s\S]*\n(?=\n)/.exec(rest)?.[0].length ?? 0;
    this.#said += end;
    return rest.slice(0, end).trim();
  }

  /** What is left when the text has ended. */
  end(): string {
    const rest = this.#text.slice(this.#said).trim();
    this.#said = 0;
    this.#text = '';
    return rest;
  }
}

/** A text as it is said: without the marks of Markdown, of which a voice would speak every one. */
export const spokenForm = (text: string): string =>
  text
    .replace(/^\s*(?:#{1,6}|>|[-*+])\s+/gm, '')
    .replace(/[*_~`|$]+/g, ' ')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/ {2,}/g, ' ')
    .trim();
