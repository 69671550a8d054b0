// Who waits for whom: circles, what holds the ledger up, and who is waited for in the end.
import {badge, duration, element, say, stateText} from './format.js';

export class WaitsView {
  constructor({open}) {
    this.open = open;
    this.none = element('p', {class: 'hint', text: 'Nobody waits for anybody.'});
    this.cycles = element('div');
    this.chain = element('div');
    this.roots = element('div');
    this.text = element('pre', {class: 'waits-text', tabindex: '0'});
    this.root = element('div', {class: 'waits'}, this.none, this.cycles, this.chain, this.roots, element('details', {}, element('summary', {text: 'as text'}), this.text));
    this.shown = '';
  }

  update(model) {
    const {waits} = model;
    say(this.text, waits.text || 'nothing');
    const nodes = new Map(waits.nodes.map((node) => [node.id, node]));
    // Rebuilt only when its shape changes: who has the focus keeps it.
    const shape = JSON.stringify([waits.cycles, waits.chain, waits.roots.map((root) => [root.id, root.why]), waits.nodes.map((node) => [node.id, node.state, node.detail]), waits.edges]);
    if (shape !== this.shown) {
      this.shown = shape;
      this.build(waits, nodes);
    }
    for (const since of this.root.querySelectorAll('[data-since]')) {
      const seconds = waits.roots.find((root) => since.dataset.root && root.id === since.dataset.since)?.since_s ?? nodes.get(since.dataset.since)?.since_s;
      say(since, duration(seconds));
    }
  }

  build(waits, nodes) {
    const why = new Map(waits.edges.map((edge) => [`${edge.from} ${edge.to}`, edge.why]));
    this.none.hidden = waits.edges.length > 0 || waits.cycles.length > 0 || waits.roots.length > 0;
    this.cycles.replaceChildren(...waits.cycles.slice(0, 20).map((cycle, i) =>
      element('section', {class: 'panel bad'}, element('h3', {text: waits.cycles.length > 1 ? `! Circle ${i + 1} of ${waits.cycles.length}: nobody in it can go on` : '! A circle: nobody in it can go on'}), this.path([...cycle, cycle[0]], nodes, why))));
    this.chain.replaceChildren(...(waits.chain?.length > 1 ? [element('section', {class: 'panel'}, element('h3', {text: 'What the ledger waits for, to the end'}), this.path(waits.chain, nodes, why))] : []));
    const roots = waits.roots.slice(0, 100).map((root) => element('tr', {}, element('td', {class: 'long'}, this.chip(root.id, nodes)), element('td', {class: 'long', text: root.why}),
      element('td', {class: 'number'}, element('span', {'data-since': root.id, 'data-root': '1'}))));
    this.roots.replaceChildren(...(roots.length ? [element('section', {class: 'panel'}, element('h3', {text: 'Waited for in the end'}),
      element('div', {class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'Roots'}, element('table', {}, element('thead', {}, element('tr', {}, ...['Who', 'Why', 'Since'].map((text, i) => element('th', {text, scope: 'col', class: i === 2 ? 'number' : undefined})))), element('tbody', {}, ...roots))))] : []));
  }

  path(ids, nodes, why) {
    const steps = [];
    ids.forEach((id, i) => {
      if (i) steps.push(element('li', {class: 'why'}, element('span', {'aria-hidden': 'true', text: '→ '}), `waits for ${why.get(`${ids[i - 1]} ${id}`) ?? ''}`));
      const node = nodes.get(id);
      steps.push(element('li', {}, this.chip(id, nodes), ' ', element('span', {class: 'hint'}, node ? `${stateText(node)}, ` : '', node ? element('span', {'data-since': id}) : '')));
    });
    return element('ol', {class: 'path'}, ...steps);
  }

  chip(id, nodes) {
    const node = nodes.get(id);
    const slash = id.indexOf('/'), name = id.slice(slash + 1), rank = id.slice(0, slash);
    const text = !name ? `rank ${rank}` : name.startsWith('?') ? `“${name.slice(1)}” in rank ${rank}` : `${name} of rank ${rank}`;
    return element('button', {type: 'button', class: 'chip', onclick: () => this.open(id)}, badge(node?.state ?? 'unknown'), ` ${text}`);
  }
}
