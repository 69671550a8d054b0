// What the server sends (server-sent events), read by fetch, which unlike EventSource can carry a token; and single questions.
// The token comes behind # in the address, which browsers send to nobody, and stays in this tab.

const kRetryMs = [500, 1000, 2000, 4000];
const kSilentMs = 15000;  // the server sends something at least every 5 s

function tokenOfThisTab() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem('token', decodeURIComponent(found[1]));
    history.replaceState(null, '', location.pathname);
  }
  return sessionStorage.getItem('token');
}
const token = tokenOfThisTab();
const headers = token ? {Authorization: `Bearer ${token}`} : {};

// {answer} or {error}: never throws.
export async function ask(target) {
  try {
    const response = await fetch(target, {headers, cache: 'no-store'});
    const answer = await response.json();
    return response.ok && answer.error === undefined ? {answer} : {error: String(answer.error ?? response.status)};
  } catch {
    return {error: 'the dashboard does not answer'};
  }
}

// Calls on.frame(text as JSON), on.status({state, why, ...}), on.lost(why) for ever.
export async function follow(on) {
  for (let tries = 0;; ++tries) {
    const began = performance.now();
    const why = await read(on, () => { tries = 0; });
    on.lost(why);
    if (performance.now() - began > 60000) tries = 0;
    await new Promise((done) => setTimeout(done, kRetryMs[Math.min(tries, kRetryMs.length - 1)]));
  }
}

async function read(on, arrived) {
  const abort = new AbortController();
  let watchdog = setTimeout(() => abort.abort(), kSilentMs);
  try {
    const response = await fetch('/v1/stream', {headers, cache: 'no-store', signal: abort.signal});
    if (response.status === 401 || response.status === 403) return 'it asks for a token: open the address that troupe dashboard has printed';
    if (!response.ok) return `it answered ${response.status}`;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let pieces = [];
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return '';
      clearTimeout(watchdog);
      watchdog = setTimeout(() => abort.abort(), kSilentMs);
      // A frame of many ranks comes in many pieces: they are joined once, at its end.
      let rest = value;
      for (let end; (end = endOfEvent(pieces, rest)) >= 0;) {
        pieces.push(rest.slice(0, end));
        rest = rest.slice(end);
        deliver(pieces.join(''), on, arrived);
        pieces = [];
      }
      if (rest) pieces.push(rest);
    }
  } catch {
    return '';
  } finally {
    clearTimeout(watchdog);
    abort.abort();
  }
}

// Where in `rest` the empty line ends that ends an event; -1: not in here.
function endOfEvent(pieces, rest) {
  const last = pieces.length ? pieces[pieces.length - 1] : '';
  if (rest.startsWith('\n') && last.endsWith('\n')) return 1;
  const found = rest.indexOf('\n\n');
  return found < 0 ? -1 : found + 2;
}

function deliver(event, on, arrived) {
  let name = '', data = '';
  for (const line of event.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    if (line.startsWith('data: ')) data += line.slice(6);
  }
  if (!data) return;
  let value;
  try {
    value = JSON.parse(data);
  } catch {
    return;
  }
  arrived();
  if (name === 'frame') on.frame(value);
  if (name === 'status') on.status(value);
}
