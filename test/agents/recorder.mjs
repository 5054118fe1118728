// A proxy between an agent and the server that keeps what passes: each request's path and body, and of the answer the
// status, the type and the number of events.
import { createServer, request } from 'node:http';

/** Starts a proxy to the server at url. What passes is appended to its list `seen`. */
export async function startRecorder(url) {
  const target = new URL(url);
  const recorder = { seen: [] };
  const server = createServer((req, res) => pass(target, recorder.seen, req, res));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  recorder.url = `http://127.0.0.1:${server.address().port}`;
  recorder.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return recorder;
}

function pass(target, seen, req, res) {
  const parts = [];
  req.on('data', (part) => parts.push(part));
  req.on('end', () => {
    const body = Buffer.concat(parts);
    // An agent may hang up when it has read the last event, so what came counts, whether or not the answer has ended.
    const entry = { method: req.method, path: req.url, body: parsed(body), status: 0, type: '', answer: '', get events() { return eventsIn(this.answer); } };
    if (req.method === 'POST') seen.push(entry);
    const onward = request({ host: target.hostname, port: target.port, method: req.method, path: req.url, headers: { ...req.headers, host: target.host } }, (answer) => {
      entry.status = answer.statusCode;
      entry.type = answer.headers['content-type'] ?? '';
      res.writeHead(answer.statusCode, answer.headers);
      answer.on('data', (part) => (entry.answer += part));
      answer.pipe(res);
    });
    onward.on('error', () => res.destroy());
    res.on('close', () => onward.destroy());
    onward.end(body);
  });
}

const eventsIn = (text) => text.split('\n').filter((line) => line.startsWith('data:')).length;

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
