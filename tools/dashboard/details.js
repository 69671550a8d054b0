// One actor, in a panel at the side: its state, mailbox and edges. Escape closes it, and the focus goes back to where it was.
import {count, duration, element, isNumber, say, stateText} from './format.js';
import {fillEdges} from './graph.js';

const kAgainMs = 2000, kMessagesMost = 12;

export class Details {
  constructor({ask}) {
    this.ask = ask;
    this.panel = document.getElementById('details');
    this.title = document.getElementById('details-title');
    this.body = document.getElementById('details-body');
    this.closeButton = document.getElementById('details-close');
    this.closeButton.addEventListener('click', () => this.close());
    addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && !this.panel.hidden) this.close();
    });
    this.facts = element('dl', {class: 'facts'});
    this.mail = element('ol', {class: 'mail-list'});
    this.mailTitle = element('h3', {text: 'Mailbox'});
    this.events = element('ol', {class: 'mail-list'});
    this.eventsTitle = element('h3', {text: 'Last events'});
    this.edgeRows = element('tbody');
    this.edgeTitle = element('h3', {text: 'Edges'});
    this.edgeBox = element('div', {class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'Edges of this actor'}, element('table', {class: 'edges'}, element('thead', {}, element('tr', {}, ...['Edge', 'Free', 'In flight', 'Queued', 'Held', 'Sent'].map((text, i) => element('th', {text, scope: 'col', class: i ? 'number' : undefined})))), this.edgeRows));
    this.body.append(this.facts, this.mailTitle, this.mail, this.edgeTitle, this.edgeBox, this.eventsTitle, this.events);
  }

  open(id, model) {
    if (this.panel.hidden) this.before = document.activeElement;
    this.id = id;
    this.asked = -Infinity;
    this.mail.replaceChildren();
    this.events.replaceChildren();
    this.panel.hidden = false;
    this.update(model);
    this.closeButton.focus();
  }

  close() {
    this.panel.hidden = true;
    this.id = null;
    if (this.before?.isConnected) this.before.focus();
  }

  update(model) {
    if (!this.id || !model?.frame) return;
    const id = this.id, slash = id.indexOf('/');
    const actor = model.byId.get(id);
    say(this.title, `${id.slice(slash + 1) || 'all'} of rank ${id.slice(0, slash)}`);
    const node = model.waits.nodes.find((row) => row.id === id);
    const facts = actor ? [
      ['State', stateText(actor)], ['Since', duration(actor.since_s)],
      ['In the mailbox', `${actor.depth ?? 0}${actor.depth ? `, the oldest ${duration(actor.oldest_s)}` : ''}; most ever ${actor.depth_max ?? 0}`],
      ['Sent to it', count(actor.sent)], ['Handled', `${count(actor.handled)} in ${duration(actor.handling_s)}`], ['Dead letters', String(actor.dead ?? 0)], ['Restarts', String(actor.restarts ?? 0)],
    ] : [['State', node ? `${stateText(node)}, ${duration(node.since_s)}` : 'it is not there any more']];
    const waitsFor = model.waits.edges.filter((edge) => edge.from === id).map((edge) => `${edge.to} (${edge.why})`);
    const isWaitedBy = model.waits.edges.filter((edge) => edge.to === id).map((edge) => edge.from);
    if (waitsFor.length) facts.push(['Waits for', waitsFor.join(', ')]);
    if (isWaitedBy.length) facts.push(['Is waited for by', isWaitedBy.slice(0, 20).join(', ')]);
    this.fillFacts(facts);
    const edges = model.edges.filter((edge) => edge.fromId === id || edge.toId === id);
    this.edgeTitle.hidden = this.edgeBox.hidden = !edges.length;
    fillEdges(this.edgeRows, edges);
    this.askMore(id);
  }

  fillFacts(facts) {
    while (this.facts.childElementCount > facts.length * 2) this.facts.lastElementChild.remove();
    while (this.facts.childElementCount < facts.length * 2) this.facts.append(element('dt'), element('dd', {class: 'long'}));
    facts.forEach(([name, text], i) => {
      say(this.facts.children[2 * i], name);
      say(this.facts.children[2 * i + 1], text);
    });
  }

  // What a frame leaves out: the messages, and the last events.
  async askMore(id) {
    if (performance.now() - this.asked < kAgainMs || id.includes('/?') || id.endsWith('/')) return;
    this.asked = performance.now();
    const [mailbox, peek] = await Promise.all(['mailbox', 'peek'].map((view) => this.ask(`/v1/${view}?actor=${encodeURIComponent(id)}`)));
    if (this.id !== id) return;
    const waiting = mailbox.answer?.actor?.waiting ?? [];
    this.mailTitle.hidden = this.mail.hidden = !waiting.length;
    this.mail.replaceChildren(...waiting.slice(0, kMessagesMost).map((row) => element('li', {class: 'long', text: `${row.type}, ${duration(row.age_s)}`})));
    const events = peek.answer?.events ?? [];
    this.eventsTitle.hidden = this.events.hidden = !events.length;
    this.events.replaceChildren(...events.slice(-kMessagesMost).reverse().map((row) => element('li', {class: 'long', text: `${isNumber(row.age_s) ? `${duration(row.age_s)} ago: ` : ''}${row.kind} ${row.text ?? ''}${row.others > 0 ? `, after ${row.others} more of these` : ''}`})));
  }
}
