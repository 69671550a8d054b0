// Numbers, times and elements for people. All text goes in as text: names of actors come from programs that nobody has looked at.

export function isNumber(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

export function duration(seconds) {
  if (!isNumber(seconds)) return '–';
  const s = Math.max(0, seconds);
  if (s === 0) return '0 s';
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  if (s < 1) return `${(s * 1e3).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function count(value) {
  if (!isNumber(value)) return '–';
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (size >= unit * 10) return `${(value / unit).toFixed(size >= unit * 100 ? 0 : 1)} ${letter}`;
  }
  return Number.isInteger(value) ? String(value) : value.toPrecision(4);
}

export function bytes(value) {
  if (!isNumber(value)) return '–';
  for (const [unit, name] of [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']]) {
    if (value >= unit) return `${(value / unit).toFixed(value >= unit * 100 ? 0 : 1)} ${name}`;
  }
  return `${Math.round(value)} B`;
}

export function percent(ratio) {
  if (!isNumber(ratio)) return '–';
  const value = ratio * 100;
  return `${value.toFixed(value !== 0 && Math.abs(value) < 10 ? 1 : 0)} %`;
}

export function clock(unix) {
  return isNumber(unix) && unix > 0 ? new Date(unix * 1e3).toLocaleTimeString() : '–';
}

// Each state with a sign, so that colour is never the only one.
const kStates = {
  idle: ['I', 'idle'],
  ready: ['Q', 'ready: messages wait for it'],
  handling: ['H', 'handling'],
  running: ['R', 'running'],
  waiting_for_credit: ['C', 'waits for credit of'],
  waiting_for_input: ['W', 'waits for input from'],
  waiting_for_event: ['E', 'waits for an event of the device'],
  waiting_for_collective: ['L', 'waits for collective'],
  paused: ['P', 'paused'],
  ended: ['X', 'ended'],
  silent: ['!', 'silent'],
  answered: ['A', 'answered'],
};
export const kLegend = ['idle', 'ready', 'handling', 'running', 'waiting_for_credit', 'waiting_for_input', 'waiting_for_event', 'waiting_for_collective', 'paused', 'ended', 'silent'];

export function sign(state) {
  return (kStates[state] ?? ['?'])[0];
}
export function stateWord(state) {
  return (kStates[state] ?? ['', String(state ?? 'unknown').replaceAll('_', ' ')])[1];
}
export function stateText(row) {
  const known = Object.hasOwn(kStates, row.state);
  const word = known ? kStates[row.state][1].replace(/:.*/, '') : stateWord(row.state);
  const what = `${row.detail ?? ''}${row.number >= 0 ? ` ${row.number}` : ''}`.trim();
  if (row.from && row.state === 'waiting_for_input') return `${word} ${row.from}${what ? `: ${what}` : ''}`;
  return row.detail ? `${word} ${what}` : `${word.replace(/ (of|from)$/, '')}${what ? ` ${what}` : ''}`;
}
// As a CSS class: only of states that are known.
export function stateClass(state) {
  return Object.hasOwn(kStates, state) ? `is-${state}` : 'is-unknown';
}

// element('td', {class: 'number', text: '3', 'aria-label': '...'}, child, ...)
export function element(tag, settings = {}, ...children) {
  const made = document.createElement(tag);
  set(made, settings);
  made.append(...children.filter((child) => child != null));
  return made;
}

export function svg(tag, settings = {}) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  set(made, settings);
  return made;
}

function set(made, settings) {
  for (const [key, value] of Object.entries(settings)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'text') made.textContent = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? '' : value);
  }
}

export function say(node, text) {  // without work where nothing has changed
  if (node.textContent !== text) node.textContent = text;
}

export function badge(state) {
  return element('span', {class: `badge ${stateClass(state)}`, text: sign(state), title: stateWord(state), 'aria-hidden': 'true'});
}
export function showBadge(node, state) {
  const name = `badge ${stateClass(state)}`;
  if (node.className === name) return;
  node.className = name;
  node.textContent = sign(state);
  node.title = stateWord(state);
}

// Children of `parent` become as many as there are rows, made by `make` and filled by `fill`.
export function rows(parent, all, make, fill) {
  while (parent.childElementCount > all.length) parent.lastElementChild.remove();
  for (let i = 0; i < all.length; ++i) {
    let node = parent.children[i];
    if (!node) {
      node = make();
      parent.append(node);
    }
    fill(node, all[i], i);
  }
}
