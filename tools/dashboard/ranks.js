// The ranks; those that fail, are silent or do not get on come first.
import {badge, bytes, duration, element, percent, say, showBadge} from './format.js';

const kRowsMost = 100;

export class RanksView {
  constructor({open}) {
    this.open = open;
    this.filter = element('input', {type: 'search', id: 'rank-filter', placeholder: 'rank, host or state', autocomplete: 'off', spellcheck: 'false'});
    this.only = element('input', {type: 'checkbox', id: 'rank-only'});
    this.told = element('p', {class: 'hint', role: 'status'});
    this.body = element('tbody');
    const heads = ['Rank', 'State', 'Host', 'Process', 'Actors', 'Oldest message', 'Busy', 'Memory', 'Peak'];
    this.failed = element('div');
    this.root = element('div', {}, this.failed,
      element('div', {class: 'controls'}, element('label', {for: 'rank-filter', text: 'Filter'}), this.filter,
        element('span', {class: 'check'}, this.only, element('label', {for: 'rank-only', text: 'only those that stand out'}))), this.told,
      element('div', {class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'Ranks, scrolls sideways'}, element('table', {class: 'ranks', 'aria-label': 'Ranks'},
        element('thead', {}, element('tr', {}, ...heads.map((text, i) => element('th', {text, scope: 'col', class: i > 2 ? 'number' : undefined})))), this.body)));
    this.filter.addEventListener('input', () => this.update(this.model));
    this.only.addEventListener('change', () => this.update(this.model));
  }

  update(model) {
    this.model = model;
    if (!model?.frame) return;
    const failures = new Map();
    for (const row of model.failed) failures.set(row.rank, row);
    let all = model.ranks.map((report) => this.row(report, model, failures.get(report.rank)));
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (this.only.checked) all = all.filter((row) => row.weight > 0);
    if (words.length) all = all.filter((row) => words.every((word) => `${row.rank} ${row.host} ${row.text}`.toLowerCase().includes(word)));
    all.sort((a, b) => b.weight - a.weight || a.rank - b.rank);
    const shown = all.slice(0, kRowsMost);
    const bad = all.filter((row) => row.weight > 0).length;
    say(this.told, `${model.ranks.length - model.silent.length} of ${model.ranks.length} ranks answered${bad ? `; ${bad} stand out` : ''}${shown.length < all.length ? `; the first ${shown.length} are shown: filter to see others` : ''}`);
    while (this.body.rows.length > shown.length) this.body.deleteRow(-1);
    shown.forEach((row, i) => fill(this.body.rows[i] ?? this.addRow(), row));
    this.showFailures(model);
  }

  row(report, model, failure) {
    const state = failure ? 'failed' : model.rankState(report);
    const actors = report.actors ?? [];
    const stuck = state === 'stuck' ? actors.map((row) => model.byId.get(`${report.rank}/${row.name}`)).filter((actor) => actor && (actor.stuck_s || model.inCycle.has(actor.id))) : [];
    const busy = (report.streams ?? []).map((stream) => stream.busy_ratio).filter((ratio) => typeof ratio === 'number');
    const text = state === 'silent' ? `gave no answer: ${report.error ?? ''}${report.silent_s > 0 ? `, silent for ${duration(report.silent_s)}` : ''}`
      : state === 'failed' ? `${failure.name} ended: ${failure.cause}`
      : state === 'stuck' ? `no progress: ${stuck.slice(0, 3).map((actor) => actor.name).join(', ')}` : state.replaceAll('_', ' ');
    return {
      rank: report.rank, state, text, host: report.host ?? '–', pid: report.pid ?? '–', actors: report.answered ? actors.length : '–',
      oldest: Math.max(0, ...actors.map((row) => (row.depth > 0 ? row.oldest_s ?? 0 : 0))), busy: busy.length ? Math.max(...busy) : undefined,
      memory: report.memory_bytes, peak: report.memory_peak_bytes, id: stuck[0]?.id,
      weight: state === 'failed' ? 4 : state === 'silent' ? 3 : state === 'stuck' ? 2 : report.answered ? 0 : 1,
    };
  }

  addRow() {
    const row = this.body.insertRow();
    for (let i = 0; i < 9; ++i) row.insertCell().className = i > 2 ? 'number' : i === 1 ? 'long' : '';
    row.mark = badge('idle');
    row.words = element('span');
    row.cells[1].append(row.mark, ' ', row.words);
    return row;
  }

  showFailures(model) {
    const shown = model.failed.slice(-5);
    const key = JSON.stringify(shown.map((row) => [row.rank, row.name, row.cause]));
    if (key === this.failuresShown) return;
    this.failuresShown = key;
    this.failed.replaceChildren(...(shown.length ? [element('section', {class: 'panel bad'}, element('h3', {text: '! Actors that ended with an error'}),
      element('ul', {}, ...shown.map((row) => element('li', {class: 'long', text: `${row.name} of rank ${row.rank}: ${row.cause}${row.chain?.length ? ` (first: ${row.chain[0]})` : ''}`}))))] : []));
  }
}

function fill(node, row) {
  node.className = row.weight > 0 ? 'stands-out' : '';
  const isBad = row.weight > 0;
  showBadge(node.mark, row.state === 'stuck' || row.state === 'failed' ? 'silent' : row.state);
  if (isBad) node.mark.title = row.text;
  say(node.words, row.text);
  [row.rank, null, row.host, row.pid, row.actors, row.oldest ? duration(row.oldest) : '–', percent(row.busy), bytes(row.memory), bytes(row.peak)].forEach((value, i) => {
    if (i !== 1) say(node.cells[i], String(value));
  });
}
