// Where the wall time went: useful and lost time, which add up to it.
import {duration, element, percent, rows, say} from './format.js';

const kWords = {
  useful: 'useful: steps that count',
  unexplained: 'not accounted for',
  startup: 'start: data, checkpoint, connections',
  data_wait: 'waiting for data',
  checkpoint_wait: 'waiting for a snapshot',
  evaluation_wait: 'waiting for evaluation or disk',
  skipped: 'skipped steps',
  between_steps: 'between steps',
  overdue: 'the open step is late',
};

export class GoodputView {
  constructor({isSmall = false} = {}) {
    this.none = element('p', {class: 'hint', text: 'This job keeps no account of its time.'});
    this.bar = element('div', {class: 'stack', role: 'img'});
    this.body = element('tbody');
    this.sum = element('td', {class: 'number'});
    const table = element('table', {class: 'goodput-table'}, element('thead', {}, element('tr', {}, element('th', {text: 'Time', scope: 'col'}), element('th', {text: 'Seconds', scope: 'col', class: 'number'}), element('th', {text: 'Share', scope: 'col', class: 'number'}))), this.body,
      element('tfoot', {}, element('tr', {}, element('th', {text: 'wall time', scope: 'row'}), this.sum, element('td', {class: 'number', text: '100 %'}))));
    this.box = element('div', {}, this.bar, table);
    this.root = element('section', {class: 'panel goodput'}, isSmall ? element('h3', {text: 'Where the time went'}) : null, this.none, this.box);
  }

  update(model) {
    const goodput = model.goodput();
    this.none.hidden = goodput !== null;
    this.box.hidden = goodput === null;
    if (!goodput) return;
    const parts = [{type: 'useful', seconds: goodput.useful_s}, ...goodput.lost];
    if (Math.abs(goodput.unexplained_s) > 0.005 * goodput.wall_s) parts.push({type: 'unexplained', seconds: goodput.unexplained_s});
    const share = (part) => part.seconds / goodput.wall_s;
    const word = (part) => kWords[part.type] ?? part.type.replaceAll('_', ' ');
    rows(this.bar, parts, () => element('span'), (node, part, i) => {
      node.className = `slice slice-${part.type === 'useful' ? 'good' : (i - 1) % 5 + 1}`;
      node.style.flexGrow = String(Math.max(0, share(part)));
      node.title = `${word(part)}: ${percent(share(part))}`;
      say(node, share(part) > 0.08 ? letter(i) : '');
    });
    this.bar.setAttribute('aria-label', `goodput ${percent(goodput.useful_s / goodput.wall_s)} of ${duration(goodput.wall_s)}`);
    rows(this.body, parts, () => element('tr', {}, element('td', {class: 'long'}, element('span'), ' ', element('span')), element('td', {class: 'number'}), element('td', {class: 'number'})), (row, part, i) => {
      const [key, name] = row.cells[0].children;
      key.className = `key slice-${part.type === 'useful' ? 'good' : (i - 1) % 5 + 1}`;
      say(key, letter(i));
      say(name, word(part));
      say(row.cells[1], part.seconds.toFixed(1));
      say(row.cells[2], percent(share(part)));
    });
    say(this.sum, goodput.wall_s.toFixed(1));
  }
}

function letter(i) {
  return String.fromCharCode(65 + (i % 26));
}
