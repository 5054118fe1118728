// A slow line between a browser and a server: the round trip of a handshake before the first byte, delay in both
// directions, one rate that all connections share, and TCP's slow start, which is what makes each kilobyte beyond the
// first fourteen cost a round trip.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const segmentBytes = 1460;
const firstWindowBytes = 10 * segmentBytes;

/** A link that sends one segment after the other, shared by all connections. */
function openLink(bytesPerSecond) {
  let freeAt = 0;
  return (bytes) => (freeAt = Math.max(freeAt, performance.now()) + (bytes * 1000) / bytesPerSecond);
}

/** One direction of a connection: takes what is read, and hands it on when it would have arrived. */
function openDirection(to, link, rttMs, openAt) {
  const waiting = [];
  let inFlight = 0;
  let window = firstWindowBytes;
  const pump = () => {
    while (waiting.length > 0 && inFlight < window) {
      const segment = waiting.shift();
      inFlight += segment.length;
      const arrives = Math.max(openAt, link(segment.length)) + rttMs / 2 - performance.now();
      setTimeout(() => to.destroyed || to.write(segment), arrives);
      setTimeout(() => {
        inFlight -= segment.length;
        window += segment.length;
        pump();
      }, arrives + rttMs / 2);
    }
  };
  return (bytes) => {
    for (let at = 0; at < bytes.length; at += segmentBytes) waiting.push(bytes.subarray(at, at + segmentBytes));
    pump();
  };
}

/** Carries connections to a port as over such a line. */
export async function openSlowLine(port, { rttMs, downBytesPerSecond, upBytesPerSecond }) {
  const sockets = new Set();
  const down = openLink(downBytesPerSecond);
  const up = openLink(upBytesPerSecond);
  const listener = createServer({ noDelay: true }, (browser) => {
    const server = connect({ port, host: '127.0.0.1', noDelay: true });
    const openAt = performance.now() + rttMs; // one round trip for the handshake
    browser.on('data', openDirection(server, up, rttMs, openAt));
    server.on('data', openDirection(browser, down, rttMs, openAt));
    for (const [one, other] of [[browser, server], [server, browser]]) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return {
    url: `http://127.0.0.1:${listener.address().port}`,
    /** Ends all connections, so that the next request has to open one. */
    cut: () => sockets.forEach((s) => s.destroy()),
    async close() {
      sockets.forEach((s) => s.destroy());
      listener.close();
      await once(listener, 'close');
    },
  };
}
