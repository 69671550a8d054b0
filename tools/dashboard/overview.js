// The first look: the actors, loss and speed, and where the time went.
import {element} from './format.js';
import {ChartsView} from './charts.js';
import {GoodputView} from './goodput.js';
import {GraphView} from './graph.js';

export class OverviewView {
  constructor(parts) {
    this.graph = new GraphView(parts);
    this.charts = new ChartsView({...parts, only: ['loss', 'speed']});
    this.goodput = new GoodputView({isSmall: true});
    this.side = element('div', {class: 'side'}, this.charts.root, this.goodput.root);
    this.root = element('div', {class: 'overview'}, element('section', {class: 'panel graph-panel'}, element('h3', {text: 'Actors'}), this.graph.root), this.side);
  }

  update(model) {
    this.side.hidden = !model.training && !this.charts.history.steps.length;
    this.root.classList.toggle('alone', this.side.hidden);
    this.graph.update(model);
    this.charts.update(model);
    this.goodput.update(model);
  }
}
