// What each stream did lately, from /v1/trace: a lane a stream, a bar an operation, a line where a step begins.
import {clock, duration, element, isNumber, percent, say} from './format.js';
import {colourOf} from './charts.js';

const kAgainMs = 2000, kRanksAtOnce = 16, kLanesMost = 24, kLane = 26, kNames = 118, kAxis = 22;
const kSame_s = 1e-5;  // the clocks of two answers differ by less
const kColours = ['--op-1', '--op-2', '--op-3', '--op-4', '--op-5', '--op-6'];

// -> {lanes: [{name, rank, operations: [{name, step, micro, begin, end}]}], begin, end}; times of all ranks on one clock.
export function lanesOf(trace, last_s) {
  const lanes = [];
  let end = -Infinity;
  for (const report of trace?.ranks ?? []) {
    const toUnix = (report.at_unix_s ?? 0) - (report.probe_s ?? 0);
    for (const stream of report.streams ?? []) {
      const operations = [...(stream.operations ?? []), ...(stream.running ?? [])].map((operation) => ({
        name: String(operation.name ?? ''), step: operation.step, micro: operation.micro,
        begin: operation.begin_s + toUnix,
        end: (isNumber(operation.end_s) && operation.end_s >= operation.begin_s ? operation.end_s : report.probe_s) + toUnix,
      })).filter((operation) => isNumber(operation.begin) && isNumber(operation.end));
      for (const operation of operations) end = Math.max(end, operation.end);
      lanes.push({name: `${report.rank}/${stream.name}`, rank: report.rank, lost: stream.lost ?? 0, operations});
    }
  }
  const begin = end - last_s;
  for (const lane of lanes) lane.operations = lane.operations.filter((operation) => operation.end > begin).sort((a, b) => a.begin - b.begin);
  return {lanes, begin, end};
}

export class TimelineView {
  constructor({ask}) {
    this.ask = ask;
    this.asked = -Infinity;
    this.kinds = new Map();  // to colour and letter
    this.last = element('select', {id: 'time-last'}, ...[1, 2, 5, 10, 30].map((s) => element('option', {value: s, text: `${s} s`, selected: s === 5})));
    this.rank = element('select', {id: 'time-rank'}, element('option', {value: '', text: 'all'}));
    this.hold = element('input', {type: 'checkbox', id: 'time-hold'});
    this.none = element('p', {class: 'hint', text: 'asking for what ran last'});
    this.canvas = element('canvas', {tabindex: '0', role: 'application', 'aria-label': 'Timeline: left and right go from operation to operation, up and down from stream to stream', 'aria-describedby': 'time-told'});
    this.told = element('p', {id: 'time-told', class: 'told', 'aria-live': 'polite'});
    this.keys = element('ul', {class: 'keys', 'aria-label': 'Operations'});
    this.controls = element('div', {class: 'controls'}, element('label', {for: 'time-last', text: 'Last'}), this.last, element('label', {for: 'time-rank', text: 'Rank'}), this.rank,
      element('span', {class: 'check'}, this.hold, element('label', {for: 'time-hold', text: 'hold'})));
    this.root = element('div', {class: 'timeline'}, this.controls, this.none, this.canvas, this.told, this.keys);
    for (const control of [this.last, this.rank]) {
      control.addEventListener('change', () => {
        this.draw();
        this.asked = -Infinity;  // the next frame asks
      });
    }
    this.canvas.addEventListener('pointermove', (event) => this.point(event));
    this.canvas.addEventListener('keydown', (event) => this.step(event));
    new ResizeObserver(() => this.draw()).observe(this.root);
    addEventListener('theme', () => this.draw());
  }

  async update(model) {
    this.model = model;
    if (this.hold.checked || performance.now() - this.asked < kAgainMs) return;
    this.asked = performance.now();
    this.fillRanks(model.ranks);
    // A job of many ranks is asked about one of them: the rings of all would be much to send.
    const {answer, error} = await this.ask(`/v1/trace?last_s=${Number(this.last.value) + 1}${this.rank.value === '' ? '' : `&ranks=${Number(this.rank.value)}`}`);
    if (answer) this.trace = answer;
    const hasAny = (this.trace?.ranks ?? []).some((report) => (report.streams ?? []).some((stream) => (stream.operations ?? []).length));
    this.none.hidden = hasAny;
    this.canvas.hidden = !hasAny;
    say(this.none, error && !this.trace ? `no timeline from this job (${error})` : 'no timeline from this job');
    this.draw();
  }

  fillRanks(reports) {
    const ranks = reports.map((report) => report.rank), key = ranks.join();
    if (this.ranksShown === key) return;
    this.ranksShown = key;
    const chosen = this.rank.value, all = ranks.length <= kRanksAtOnce ? [element('option', {value: '', text: 'all'})] : [];
    this.rank.replaceChildren(...all, ...ranks.map((rank) => element('option', {value: rank, text: String(rank)})));
    if (chosen !== '' && ranks.includes(Number(chosen))) this.rank.value = chosen;
  }

  draw() {
    if (!this.trace || this.canvas.hidden || !this.root.clientWidth) return;
    const {lanes, begin, end} = lanesOf(this.trace, Number(this.last.value));
    const of = lanes.filter((lane) => this.rank.value === '' || lane.rank === Number(this.rank.value));
    this.lanes = of.slice(0, kLanesMost);
    this.chosen = this.lanes.find((lane) => lane.name === this.chosenLane)?.operations.find((operation) => operation.name === this.chosen?.name && Math.abs(operation.begin - this.chosen.begin) < kSame_s) ?? this.chosen;
    const width = this.root.clientWidth, height = kAxis + this.lanes.length * kLane + 4, ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const names = Math.min(kNames, width * 0.3);
    const x = (time) => names + ((time - begin) / (end - begin)) * (width - names);
    this.place = {x, begin, end, names};
    const pen = this.canvas.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '11px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    this.drawAxis(pen, width, height);
    this.lanes.forEach((lane, i) => this.drawLane(pen, lane, kAxis + i * kLane, width));
    this.drawSteps(pen, height, width);
    if (of.length > kLanesMost) say(this.told, `the first ${kLanesMost} of ${of.length} streams: choose a rank to see others`);
    this.fillKeys();
  }

  drawAxis(pen, width, height) {
    const {x, begin, end, names} = this.place, step = niceStep((end - begin) / Math.max(2, (width - names) / 90));
    pen.strokeStyle = colourOf('--grid');
    pen.fillStyle = colourOf('--soft');
    pen.textAlign = 'center';
    for (let ago = 0; ago <= end - begin; ago += step) {
      const at = Math.round(x(end - ago)) - 0.5;
      pen.beginPath();
      pen.moveTo(at, kAxis);
      pen.lineTo(at, height);
      pen.stroke();
      if (at > names + 20 && at < width - 20) pen.fillText(ago === 0 ? 'now' : `−${duration(ago)}`, at, 9);
    }
  }

  drawLane(pen, lane, y, width) {
    const {x, begin, end, names} = this.place;
    pen.fillStyle = colourOf('--text');
    pen.textAlign = 'left';
    const busy = lane.operations.reduce((sum, operation) => sum + operation.end - Math.max(begin, operation.begin), 0) / (end - begin);
    pen.fillText(cut(pen, `${lane.name} ${percent(Math.min(1, busy))}`, names - 6), 0, y + kLane / 2);
    lane.busy = busy;
    for (const operation of lane.operations) {
      const left = Math.max(names, x(operation.begin)), right = Math.min(width, x(operation.end));
      const kind = this.kind(operation.name);
      pen.fillStyle = colourOf(kind.colour);
      pen.fillRect(left, y + 3, Math.max(1, right - left - 0.5), kLane - 7);
      if (right - left > 9) {
        pen.fillStyle = colourOf('--op-text');
        const label = right - left > 60 ? `${operation.name}${isNumber(operation.micro) && operation.micro >= 0 ? ` ${operation.micro}` : ''}` : kind.letter;
        pen.fillText(cut(pen, label, right - left - 4), left + 2, y + kLane / 2);
      }
      if (operation === this.chosen) {
        pen.strokeStyle = colourOf('--text');
        pen.lineWidth = 2;
        pen.strokeRect(left, y + 2, Math.max(3, right - left), kLane - 5);
        pen.lineWidth = 1;
      }
    }
  }

  drawSteps(pen, height, width) {
    const first = new Map();
    for (const lane of this.lanes) {
      for (const operation of lane.operations) {
        if (isNumber(operation.step) && operation.step >= 0) first.set(operation.step, Math.min(first.get(operation.step) ?? Infinity, operation.begin));
      }
    }
    pen.strokeStyle = pen.fillStyle = colourOf('--soft');
    pen.setLineDash([4, 3]);
    pen.textAlign = 'left';
    let free = -Infinity;
    for (const [step, begin] of [...first].sort((a, b) => a[0] - b[0])) {
      const at = this.place.x(begin);
      if (begin < this.place.begin || at < free) continue;
      pen.beginPath();
      pen.moveTo(at, 16);
      pen.lineTo(at, height);
      pen.stroke();
      const text = `step ${step}`, room = pen.measureText(text).width + 6;
      if (at + room > width) continue;  // it moves on, and then has room
      pen.fillText(text, at + 3, 19);
      free = at + Math.max(56, room);
    }
    pen.setLineDash([]);
  }

  kind(name) {
    const kind = name.split(/[\s(:]/)[0];
    if (!this.kinds.has(kind)) {
      const taken = new Set([...this.kinds.values()].map((other) => other.letter));
      const letter = [...`${kind.toUpperCase()}123456789`].find((free) => !taken.has(free)) ?? '?';
      this.kinds.set(kind, {letter, colour: kColours[this.kinds.size % kColours.length]});
    }
    return this.kinds.get(kind);
  }

  fillKeys() {
    if (this.keys.childElementCount === this.kinds.size) return;
    this.keys.replaceChildren(...[...this.kinds].map(([kind, {letter}], i) => element('li', {}, element('span', {class: `key key-${(i % kColours.length) + 1}`, text: letter, 'aria-hidden': 'true'}), ` ${kind}`)));
  }

  choose(lane, operation) {
    if (this.chosen === operation) return;
    this.chosen = operation;
    this.chosenLane = lane.name;
    say(this.told, operation ? `${lane.name}: ${operation.name}${operation.step >= 0 ? `, step ${operation.step}` : ''}${operation.micro >= 0 ? `, micro-batch ${operation.micro}` : ''}, ${duration(operation.end - operation.begin)}, at ${clock(operation.begin)}` : '');
    this.draw();
  }

  point(event) {
    const lane = this.lanes?.[Math.floor((event.offsetY - kAxis) / kLane)];
    const found = lane?.operations.find((operation) => this.place.x(operation.begin) <= event.offsetX && event.offsetX <= Math.max(this.place.x(operation.begin) + 3, this.place.x(operation.end)));
    if (found) this.choose(lane, found);
  }

  step(event) {
    if (!['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'].includes(event.key) || !this.lanes?.length) return;
    event.preventDefault();
    this.hold.checked = true;  // what is read must not run away
    let row = this.lanes.findIndex((lane) => lane.operations.includes(this.chosen));
    if (row < 0) return this.choose(this.lanes[0], this.lanes[0].operations.at(-1));
    let column = this.lanes[row].operations.indexOf(this.chosen);
    if (event.key === 'ArrowLeft') --column;
    if (event.key === 'ArrowRight') ++column;
    if (event.key === 'ArrowUp' || event.key === 'ArrowDown') {
      row = Math.min(this.lanes.length - 1, Math.max(0, row + (event.key === 'ArrowUp' ? -1 : 1)));
      column = Math.max(0, this.lanes[row].operations.findIndex((operation) => operation.end >= this.chosen.begin));
    }
    const lane = this.lanes[row];
    const next = lane.operations[Math.min(lane.operations.length - 1, Math.max(0, column))];
    if (next) this.choose(lane, next);
  }
}

function niceStep(wanted) {
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map((k) => k * power).find((step) => step >= wanted) ?? wanted;
}

function cut(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let shorter = text;
  while (shorter.length > 1 && pen.measureText(`${shorter}…`).width > width) shorter = shorter.slice(0, -1);
  return `${shorter}…`;
}
