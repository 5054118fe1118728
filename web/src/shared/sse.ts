/** One event of a stream: its data, and its name if it has one. */
export interface ServerEvent {
  name: string;
  data: string;
}

/**
 * Reads server-sent events from a response as they come. The generator ends
 * when the connection does; who leaves the loop closes it.
 */
export async function* eventsOf(response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      for (;;) {
        const end = /\r?\n\r?\n/.exec(rest);
        if (!end) break;
        const event = parseEvent(rest.slice(0, end.index));
        rest = rest.slice(end.index + end[0].length);
        if (event) yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

/** The event that a block of lines spells; null if it holds comments only. */
export function parseEvent(block: string): ServerEvent | null {
  let name = '';
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line)!;
    if (field === 'data') data.push(value!);
    if (field === 'event') name = value!;
  }
  return data.length === 0 ? null : { name, data: data.join('\n') };
}
