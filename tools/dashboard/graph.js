// The actors and the edges between them, live. Many ranks are a map of cells; the actors of the chosen rank are below it.
import {badge, duration, element, kLegend, say, showBadge, sign, stateClass, stateText, stateWord, svg} from './format.js';
import {kNode, layout} from './graph_layout.js';

const kRanksAtOnce = 4, kActorsAtOnce = 120;
const kLabelsMost = 60, kLabel = {width: 26, height: 12};
const kWaysMost = 3;
const kSmallFrom = 200;  // so many ranks have small cells

const kCells = {  // of the rank map: sign and what it means
  silent: ['!', 'gave no answer'],
  stuck: ['S', 'an actor makes no progress'],
  running: ['R', 'running'],
  handling: ['H', 'handling'],
  waiting_for_collective: ['L', 'waits for a collective'],
  waiting_for_credit: ['C', 'waits for credit'],
  ready: ['Q', 'ready'],
  paused: ['P', 'paused'],
  idle: ['I', 'idle'],
};

export class GraphView {
  constructor({open}) {
    this.open = open;
    this.opened = new Set();  // families
    this.rank = null;
    this.shape = '';
    this.map = element('div', {class: 'rank-map', role: 'listbox', 'aria-label': 'Ranks: arrow keys move, Enter chooses'});
    this.mapBox = element('div', {class: 'rank-map-box', hidden: true}, element('p', {class: 'hint', text: 'Each cell is a rank. Choose one to see its actors.'}), this.map);
    this.canvas = element('div', {class: 'graph-canvas'});
    this.lines = svg('svg', {class: 'graph-lines', 'aria-hidden': 'true'});
    this.scroller = element('div', {class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'Actors and edges'}, this.canvas);
    this.edgeRows = element('tbody');
    this.root = element('div', {class: 'graph'}, this.mapBox, this.scroller, this.legend(), this.edgeTable());
    this.map.addEventListener('keydown', (event) => this.moveInMap(event));
    this.map.addEventListener('click', (event) => {
      const cell = event.target.closest('[data-rank]');
      if (cell) this.choose(Number(cell.dataset.rank));
    });
    new ResizeObserver(() => this.model && this.update(this.model)).observe(this.scroller);
  }

  legend() {
    const items = kLegend.map((state) => element('li', {}, badge(state), ` ${stateWord(state).replace(/ (of|from)$/, '').replace(/:.*/, '')}`));
    return element('details', {class: 'legend'}, element('summary', {text: 'Signs'}), element('ul', {}, ...items,
      element('li', {}, element('span', {class: 'edge-sign', 'aria-hidden': 'true'}), ' 3/4: three of four credits are free'),
      element('li', {}, element('span', {class: 'edge-sign starved', 'aria-hidden': 'true'}), ' 0/4: no credit is free, the sender has to wait')));
  }

  edgeTable() {
    const heads = ['Edge', 'Free', 'In flight', 'Queued', 'Held', 'Sent'].map((text, i) => element('th', {text, scope: 'col', class: i ? 'number' : undefined}));
    return element('details', {class: 'edge-table'}, element('summary', {text: 'Edges as a table'}),
      element('div', {class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'Edges'}, element('table', {class: 'edges'}, element('thead', {}, element('tr', {}, ...heads)), this.edgeRows)));
  }

  update(model) {
    this.model = model;
    const isMany = model.ranks.length > kRanksAtOnce || model.actors.length > kActorsAtOnce && model.ranks.length > 1;
    this.mapBox.hidden = !isMany;
    if (isMany && (this.rank === null || !model.byRank.has(this.rank))) {
      this.rank = (model.ranks.find((report) => model.rankState(report) === 'stuck') ?? model.ranks.find((report) => report.answered) ?? model.ranks[0])?.rank ?? null;
    }
    if (isMany) this.updateMap(model);
    this.map.classList.toggle('small', model.ranks.length > kSmallFrom);
    const ranks = isMany ? (this.rank === null ? [] : [this.rank]) : model.ranks.map((report) => report.rank);
    const byRank = new Map(ranks.map((rank) => [rank, []]));
    // X@R is the door to another rank's X, which has its own place.
    for (const actor of model.actors) if (byRank.has(actor.rank) && !/@\d+$/.test(actor.name)) byRank.get(actor.rank).push(actor);
    const edges = model.edges.filter((edge) => byRank.has(rankOf(edge.fromId)) || byRank.has(rankOf(edge.toId)));
    const width = this.scroller.clientWidth;
    const shape = JSON.stringify([ranks, width, [...this.opened], [...byRank.values()].map((all) => all.map((actor) => actor.name)), edges.map((edge) => [edge.fromId, edge.toId])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.place(layout(ranks, (rank) => byRank.get(rank), edges, width, this.opened), edges);
    }
    this.show(model, edges);
  }

  place(placed, edges) {
    const focused = document.activeElement?.dataset?.node;
    this.nodes = new Map();
    this.canvas.replaceChildren(this.lines);
    this.canvas.style.width = `${Math.max(placed.width, ...placed.groups.map((group) => group.width))}px`;
    this.canvas.style.height = `${placed.height}px`;
    this.lines.setAttribute('width', this.canvas.style.width);
    this.lines.setAttribute('height', placed.height);
    this.groups = placed.groups.map((group) => {
      const title = element('h3', {class: 'group-title'});
      const box = element('div', {class: 'group'}, title);
      at(box, group.x, group.y);
      box.style.width = `${group.width}px`;
      box.style.height = `${group.height}px`;
      this.canvas.append(box);
      return {rank: group.rank, box, title};
    });
    for (const node of placed.nodes) {
      const parts = {mark: badge('idle'), name: element('span', {class: 'node-name'}), line: element('span', {class: 'node-line'}), mail: element('span', {class: 'node-mail'})};
      const button = element('button', {type: 'button', class: 'node', 'data-node': node.id}, parts.mark, parts.name, parts.mail, parts.line);
      at(button, node.x, node.y);
      button.style.width = `${placed.nodeWidth}px`;
      button.addEventListener('click', () => {
        if (!node.family) return this.open(node.id);
        this.opened.add(node.family);
        this.update(this.model);
        this.canvas.querySelector(`[data-node="${CSS.escape(node.members[0].id)}"]`)?.focus();
      });
      this.canvas.append(button);
      this.nodes.set(node.id, {...node, ...parts, button, ids: node.members.map((actor) => actor.id)});
    }
    this.drawEdges(edges, placed);
    if (focused) this.canvas.querySelector(`[data-node="${CSS.escape(focused)}"]`)?.focus();
  }

  drawEdges(edges, placed) {
    this.lines.replaceChildren();
    this.paths = new Map();
    const names = svg('g', {});  // above all lines
    const taken = new Map(), ways = new Set(), labels = [];
    for (const edge of edges) {
      const from = this.nodes.get(edge.fromId), to = this.nodes.get(edge.toId);
      if (!from || !to) continue;
      const key = `${edge.fromId} ${edge.toId}`;
      const lane = taken.get(key) ?? 0;
      taken.set(key, lane + 1);
      const {d, isLevel, ...middle} = curve(from, to, lane, {...placed, ways});
      const path = svg('path', {d, class: 'edge'});
      const isNamed = this.paths.size < kLabelsMost;
      const label = svg('text', {...(isNamed ? freePlace(labels, middle, isLevel) : middle), class: 'edge-label', 'text-anchor': 'middle'});
      this.lines.append(path);
      if (isNamed) names.append(label);
      this.paths.set(`${key} ${edge.name}`, {path, label});
    }
    this.lines.append(names);
  }

  show(model, edges) {
    for (const group of this.groups ?? []) {
      const report = model.byRank.get(group.rank);
      say(group.title, report?.answered ? `rank ${group.rank} · ${report.host ?? ''}` : `! rank ${group.rank} · no answer: ${report?.error ?? ''}`);
      group.box.classList.toggle('is-silent-rank', !report?.answered);
    }
    for (const node of this.nodes?.values() ?? []) {
      const members = node.ids.map((id) => model.byId.get(id)).filter(Boolean);
      if (members.length) this.showNode(node, members, model);
    }
    for (const edge of edges) {
      const drawn = this.paths?.get(`${edge.fromId} ${edge.toId} ${edge.name}`);
      if (!drawn) continue;
      drawn.path.setAttribute('class', `edge ${edge.free === 0 ? 'starved' : edge.in_flight > 0 ? 'flowing' : ''}`);
      say(drawn.label, `${edge.free}/${edge.capacity}`);
      drawn.label.setAttribute('class', `edge-label ${edge.free === 0 ? 'starved' : ''}`);
    }
    fillEdges(this.edgeRows, edges.slice(0, 300));
  }

  showNode(node, members, model) {
    const worst = members.reduce((a, b) => (weight(b, model) > weight(a, model) ? b : a));
    const isBad = worst.stuck_s > 0 || model.inCycle.has(worst.id);
    const depth = members.reduce((sum, actor) => sum + (actor.depth ?? 0), 0);
    const name = node.family ? `${node.family.slice(node.family.indexOf('/') + 1)} ×${members.length}` : worst.name;
    const line = isBad ? `${duration(worst.stuck_s || worst.since_s)}: ${stateText(worst)}` : stateText(worst);
    const class_ = `node ${stateClass(worst.state)}${isBad ? ' stands-out' : ''}${node.family ? ' family' : ''}`;
    if (node.button.className !== class_) node.button.className = class_;
    showBadge(node.mark, worst.state);
    say(node.name, name);
    say(node.line, line);
    say(node.mail, depth ? `✉ ${depth}` : '');
    const told = `${name}, rank ${worst.rank}: ${sign(worst.state)}, ${stateText(worst)}${isBad ? ', no progress' : ''}${depth ? `, ${depth} in the mailbox` : ''}${node.family ? '; opens the list' : ''}`;
    if (node.button.getAttribute('aria-label') !== told) {
      node.button.setAttribute('aria-label', told);
      node.button.title = `${name}: ${line}`;
    }
  }

  updateMap(model) {
    const all = model.ranks;
    while (this.map.childElementCount > all.length) this.map.lastElementChild.remove();
    while (this.map.childElementCount < all.length) this.map.append(element('div', {role: 'option', tabindex: '-1', class: 'cell'}));
    let hasStop = false;
    for (let i = 0; i < all.length; ++i) {
      const cell = this.map.children[i], report = all[i], state = model.rankState(report);
      const isChosen = report.rank === this.rank;
      const key = `${report.rank} ${state} ${isChosen}`;
      hasStop ||= cell.tabIndex === 0;
      if (cell.dataset.key === key) continue;
      cell.dataset.key = key;
      cell.dataset.rank = report.rank;
      cell.className = `cell ${state === 'stuck' ? 'is-stuck' : stateClass(state)}`;
      cell.textContent = kCells[state][0];
      cell.title = `rank ${report.rank}: ${kCells[state][1]}`;
      cell.setAttribute('aria-label', cell.title);
      cell.setAttribute('aria-selected', String(isChosen));
    }
    if (!hasStop && all.length) this.map.children[0].tabIndex = 0;
  }

  moveInMap(event) {
    const cells = [...this.map.children], i = cells.indexOf(document.activeElement);
    if (i < 0) return;
    const perRow = cells.findIndex((cell) => cell.offsetTop > cells[0].offsetTop);
    const down = perRow < 0 ? cells.length : perRow;
    const to = {ArrowRight: i + 1, ArrowLeft: i - 1, ArrowDown: i + down, ArrowUp: i - down, Home: 0, End: cells.length - 1}[event.key];
    if (event.key === 'Enter' || event.key === ' ') this.choose(Number(cells[i].dataset.rank));
    else if (to === undefined) return;
    else if (cells[to]) {
      cells[i].tabIndex = -1;
      cells[to].tabIndex = 0;
      cells[to].focus();
    }
    event.preventDefault();
  }

  choose(rank) {
    this.rank = rank;
    this.update(this.model);
  }
}

function rankOf(id) {
  return Number(id.slice(0, id.indexOf('/')));
}

function at(node, x, y) {
  node.style.left = `${x}px`;
  node.style.top = `${y}px`;
}

function weight(actor, model) {
  if (model.inCycle.has(actor.id)) return 1e9;
  if (actor.stuck_s) return 1e6 + actor.stuck_s;
  return ['idle', 'paused', 'waiting_for_input', 'ready', 'waiting_for_event', 'waiting_for_credit', 'waiting_for_collective', 'handling', 'running'].indexOf(actor.state) + (actor.depth ? 0.5 : 0);
}

// As near to {x, y} as no other label lies, to the left on a level line, else above or below; `labels` are those so far.
function freePlace(labels, {x, y}, isLevel) {
  const places = [0, 1, -1, 2, -2, 3, -3].map((k) => (isLevel ? {x: x - Math.abs(k) * kLabel.width, y} : {x, y: y + k * kLabel.height}));
  const place = places.find((place) => labels.every((label) => Math.abs(label.x - place.x) >= kLabel.width || Math.abs(label.y - place.y) >= kLabel.height)) ?? places[0];
  labels.push(place);
  return place;
}

// The first way that no edge has taken yet: `at`, and then each time `by` further.
function freeWay(ways, axis, at, by) {
  for (let k = 0; k < kWaysMost && ways.has(`${axis} ${Math.round(at)}`); ++k) at += by;
  ways.add(`${axis} ${Math.round(at)}`);
  return at;
}

// From one node's side to the other's; back below them, so that it does not hide the way there. `ways`: what edges that pass others have taken.
function curve(from, to, lane, {isNarrow, nodeWidth, gapX, ways}) {
  const {height} = kNode, width = nodeWidth;
  if (isNarrow) {
    const isDown = to.y > from.y;
    if (Math.abs(to.y - from.y) > 2 * height) {  // past other nodes: along the left side
      const way = freeWay(ways, 'left', kNode.pad - 3, -3), y1 = from.y + height * 0.6, y2 = to.y + height * 0.4, bend = isDown ? 8 : -8;
      return {d: `M${from.x} ${y1} Q${way} ${y1} ${way} ${y1 + bend} L${way} ${y2 - bend} Q${way} ${y2} ${to.x} ${y2}`, x: from.x + 14, y: from.y + (isDown ? height + 12 : -4)};
    }
    const x1 = from.x + width * (isDown ? 0.4 : 0.7) + lane * 9, x2 = to.x + width * (isDown ? 0.4 : 0.7) + lane * 9;
    const y1 = isDown ? from.y + height : from.y, y2 = isDown ? to.y : to.y + height;
    const bend = Math.max(14, Math.abs(y2 - y1) / 2) * (isDown ? 1 : -1);
    return {d: `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`, x: (x1 + x2) / 2 + (isDown ? -14 : 16), y: (y1 + y2) / 2 + 4};
  }
  if (rankOf(from.id) !== rankOf(to.id) && to.x !== from.x) {  // to another rank through the gap between two columns
    const isForward = to.x > from.x, isDown = to.y > from.y;
    const x1 = isForward ? from.x + width : from.x, x2 = isForward ? to.x : to.x + width, y1 = from.y + (isForward ? 16 : height - 12), y2 = to.y + (isForward ? 16 : height - 12);
    const gap = freeWay(ways, 'down', (isForward ? to.x : from.x) - gapX / 2 - 8, 8), bend = isDown ? 26 : -26;
    return {d: `M${x1} ${y1} C${gap} ${y1} ${gap} ${y1} ${gap} ${y1 + bend} L${gap} ${y2 - bend} C${gap} ${y2} ${gap} ${y2} ${x2} ${y2}`, x: gap, y: (y1 + bend + y2 - bend) / 2};
  }
  if (to.x > from.x) {
    const y1 = from.y + 16 + lane * 10, y2 = to.y + 16 + lane * 10, x1 = from.x + width, x2 = to.x;
    const isLong = x2 - x1 > 2 * gapX;  // over the columns between
    const bend = isLong ? 40 : Math.max(24, (x2 - x1) / 2), rise = isLong ? Math.min(36, 14 + (x2 - x1) / 30) : 0;
    const over = isLong ? freeWay(ways, `over ${rankOf(from.id)}`, Math.min(y1, y2) - rise, -5) : 0;
    if (isLong) return {d: `M${x1} ${y1 - 8} C${x1 + bend} ${over} ${x1 + bend} ${over} ${x1 + bend + 20} ${over} L${x2 - bend - 20} ${over} C${x2 - bend} ${over} ${x2 - bend} ${over} ${x2} ${y2 - 8}`, x: x2 - bend - 30, y: over + 4, isLevel: true};
    return {d: `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 4};
  }
  if (to.x === from.x) {  // the same column
    const side = from.x + width, y1 = from.y + height / 2, y2 = to.y + height / 2;
    return {d: `M${side} ${y1} C${side + 40} ${y1} ${side + 40} ${y2} ${side} ${y2}`, x: side + 34, y: (y1 + y2) / 2};
  }
  const x1 = from.x, x2 = to.x + width, y1 = from.y + height - 10 - lane * 6, y2 = to.y + height - 10 - lane * 6;
  const bend = Math.max(24, (x1 - x2) / 2);
  return {d: `M${x1} ${y1} C${x1 - bend} ${y1 + 10} ${x2 + bend} ${y2 + 10} ${x2} ${y2}`, x: (x1 + x2) / 2, y: (y1 + y2) / 2 + 20};
}

export function fillEdges(body, edges) {
  while (body.rows.length > edges.length) body.deleteRow(-1);
  edges.forEach((edge, i) => {
    const row = body.rows[i] ?? body.insertRow();
    while (row.cells.length < 6) row.insertCell().className = row.cells.length > 1 ? 'number' : 'long';
    const far = rankOf(edge.fromId) !== rankOf(edge.toId) ? ` (rank ${rankOf(edge.fromId)} to ${rankOf(edge.toId)})` : '';
    [`${edge.name}${far}`, `${edge.free === 0 ? '! ' : ''}${edge.free} of ${edge.capacity}`, edge.in_flight, edge.queued, edge.held, edge.sent].forEach((value, k) => say(row.cells[k], String(value ?? '–')));
    row.classList.toggle('starved', edge.free === 0);
  });
}
