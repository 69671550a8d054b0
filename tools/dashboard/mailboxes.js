// Every actor with its mailbox: sorted, filtered, with the depth of the last minute.
import {badge, count, duration, element, isNumber, say, showBadge, stateText, svg} from './format.js';

const kRowsMost = 200;
const kColumns = [
  {key: 'id', title: 'Actor', text: (actor) => actor.id},
  {key: 'state', title: 'State', text: (actor) => stateText(actor)},
  {key: 'since_s', title: 'Since', number: true, text: (actor) => duration(actor.since_s)},
  {key: 'depth', title: 'Waiting', number: true, text: (actor) => String(actor.depth ?? 0)},
  {key: 'spark', title: 'Last minute', unsorted: true},
  {key: 'growth_per_s', title: 'Growth', number: true, text: (actor) => (isNumber(actor.growth_per_s) ? `${actor.growth_per_s.toFixed(1)}/s` : '–')},
  {key: 'oldest_s', title: 'Oldest', number: true, text: (actor) => (actor.depth ? duration(actor.oldest_s) : '–')},
  {key: 'depth_max', title: 'Most ever', number: true, text: (actor) => count(actor.depth_max)},
  {key: 'handled', title: 'Handled', number: true, text: (actor) => count(actor.handled)},
  {key: 'handling_s', title: 'In handlers', number: true, text: (actor) => duration(actor.handling_s)},
  {key: 'dead', title: 'Dead', number: true, text: (actor) => String(actor.dead ?? 0)},
];

export class MailboxView {
  constructor({open}) {
    this.open = open;
    this.sort = {key: 'depth', isDown: true};
    this.filter = element('input', {type: 'search', id: 'mail-filter', placeholder: 'name, rank or state', autocomplete: 'off', spellcheck: 'false'});
    this.only = element('input', {type: 'checkbox', id: 'mail-only'});
    this.told = element('p', {class: 'hint', role: 'status'});
    this.body = element('tbody');
    this.heads = kColumns.map((column) => this.head(column));
    const table = element('table', {class: 'mail', 'aria-label': 'Mailboxes'}, element('thead', {}, element('tr', {}, ...this.heads)), this.body);
    this.root = element('div', {},
      element('div', {class: 'controls'}, element('label', {for: 'mail-filter', text: 'Filter'}), this.filter,
        element('span', {class: 'check'}, this.only, element('label', {for: 'mail-only', text: 'only those with mail or without progress'}))),
      this.told, element('div', {class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'Mailboxes, scrolls sideways'}, table));
    this.filter.addEventListener('input', () => this.update(this.model));
    this.only.addEventListener('change', () => this.update(this.model));
  }

  head(column) {
    const head = element('th', {scope: 'col', class: column.number ? 'number' : undefined});
    if (column.unsorted) head.textContent = column.title;
    else {
      head.append(element('button', {type: 'button', class: 'sort', text: column.title, onclick: () => {
        this.sort = {key: column.key, isDown: this.sort.key === column.key ? !this.sort.isDown : column.number === true};
        this.update(this.model);
      }}));
    }
    return head;
  }

  update(model) {
    this.model = model;
    if (!model?.frame) return;
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let all = model.actors;
    if (this.only.checked) all = all.filter((actor) => actor.depth > 0 || actor.stuck_s > 0);
    if (words.length) all = all.filter((actor) => words.every((word) => `${actor.id} ${stateText(actor)}`.toLowerCase().includes(word)));
    const {key, isDown} = this.sort;
    const value = (actor) => (key === 'oldest_s' && !actor.depth ? -1 : actor[key] ?? -Infinity);
    const order = (a, b) => (typeof value(a) === 'string' ? value(a).localeCompare(value(b), undefined, {numeric: true}) : value(a) - value(b));
    const sorted = all.slice().sort((a, b) => (isDown ? -1 : 1) * order(a, b) || (b.stuck_s - a.stuck_s) || a.rank - b.rank);
    const shown = sorted.slice(0, kRowsMost);
    say(this.told, `${shown.length} of ${model.actors.length} actors${shown.length < all.length ? `; ${all.length} match: filter to see others` : ''}`);
    this.heads.forEach((head, i) => {
      const column = kColumns[i];
      if (!column.unsorted) head.setAttribute('aria-sort', column.key !== key ? 'none' : isDown ? 'descending' : 'ascending');
    });
    while (this.body.rows.length > shown.length) this.body.deleteRow(-1);
    shown.forEach((actor, i) => this.fill(this.body.rows[i] ?? this.addRow(), actor, model));
  }

  addRow() {
    const row = this.body.insertRow();
    const open = () => this.open(row.dataset.id);
    row.parts = {name: element('button', {type: 'button', class: 'link', onclick: open}), mark: badge('idle'), state: element('span'), line: svg('polyline', {class: 'spark-line'})};
    const spark = svg('svg', {class: 'spark', viewBox: '0 0 60 16', width: 60, height: 16, preserveAspectRatio: 'none', 'aria-hidden': 'true'});
    spark.append(row.parts.line);
    kColumns.forEach((column) => {
      const cell = row.insertCell();
      if (column.number) cell.className = 'number';
      if (column.key === 'id') cell.append(row.parts.name);
      if (column.key === 'state') cell.append(row.parts.mark, ' ', row.parts.state);
      if (column.key === 'spark') cell.append(spark);
      if (column.key === 'state' || column.key === 'id') cell.classList.add('long');
    });
    return row;
  }

  fill(row, actor, model) {
    row.dataset.id = actor.id;
    row.className = actor.stuck_s > 0 ? 'stands-out' : '';
    kColumns.forEach((column, i) => {
      if (column.key === 'id') say(row.parts.name, column.text(actor));
      else if (column.key === 'state') {
        showBadge(row.parts.mark, actor.state);
        say(row.parts.state, actor.stuck_s > 0 ? `! ${column.text(actor)}` : column.text(actor));
      } else if (column.key === 'spark') row.parts.line.setAttribute('points', points(model.depths.get(actor.id) ?? []));
      else say(row.cells[i], column.text(actor));
    });
  }
}

function points(past) {
  const most = Math.max(1, ...past);
  return past.map((depth, i) => `${60 - past.length + i + 0.5},${(15 - (14 * depth) / most).toFixed(1)}`).join(' ');
}
