// Loss, speed, MFU and memory over the training, by Chart.js; the same as numbers below each.
/* global Chart */
import {bytes, clock, count, duration, element, isNumber, percent, say} from './format.js';

const kRowsMost = 12;
const kCharts = {
  loss: {title: 'Loss', y: (point) => point.loss, text: (value) => value.toPrecision(4), colour: '--line-1', from: 'steps'},
  speed: {title: 'Tokens per second', y: (point) => point.tokens_per_s, text: count, colour: '--line-2', from: 'steps', isZeroBased: true},
  mfu: {title: 'MFU', y: (point) => point.mfu_ratio, text: percent, colour: '--line-3', from: 'steps', isZeroBased: true},
  step: {title: 'Time of a step', y: (point) => point.step_s, text: duration, colour: '--line-5', from: 'steps', isZeroBased: true},
  memory: {title: 'Memory of all ranks', y: (point) => point.bytes, text: bytes, colour: '--line-4', from: 'memory', isZeroBased: true},
};

export function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export class ChartsView {
  constructor({history, only = Object.keys(kCharts)}) {
    this.history = history;
    this.charts = only.map((key) => this.make(kCharts[key]));
    this.root = element('div', {class: 'charts'}, ...this.charts.map((chart) => chart.box));
    this.version = -1;
    addEventListener('theme', () => {
      for (const chart of this.charts) chart.drawn?.destroy(), chart.drawn = null;
      this.version = -1;
      if (this.root.isConnected) this.update();
    });
  }

  make(what) {
    const now = element('span', {class: 'chart-now'});
    const canvas = element('canvas', {role: 'img'});
    const empty = element('p', {class: 'hint', text: 'nothing yet'});
    const body = element('tbody');
    const table = element('table', {}, element('thead', {}, element('tr', {}, element('th', {text: what.from === 'steps' ? 'Step' : 'At', scope: 'col'}), element('th', {text: what.title, scope: 'col', class: 'number'}))), body);
    const box = element('section', {class: 'panel chart'}, element('h3', {}, what.title, ' ', now), element('div', {class: 'canvas-box'}, canvas, empty),
      element('details', {}, element('summary', {text: 'as numbers'}), table));
    return {what, now, canvas, empty, body, box};
  }

  update() {
    if (this.version === this.history.version) return;
    this.version = this.history.version;
    for (const chart of this.charts) {
      const {what} = chart;
      const data = [];
      for (const point of this.history[what.from]) {
        const y = what.y(point);
        if (isNumber(y)) data.push({x: what.from === 'steps' ? point.step : point.at_unix_s, y});
      }
      chart.empty.hidden = data.length > 0;
      chart.canvas.hidden = data.length === 0;
      const last = data[data.length - 1];
      const label = (x) => (what.from === 'steps' ? String(x) : clock(x));
      say(chart.now, last ? what.text(last.y) : '–');
      if (!last) continue;
      chart.canvas.setAttribute('aria-label', `${what.title}: ${what.text(last.y)} at ${label(last.x)}, first ${what.text(data[0].y)} at ${label(data[0].x)}, ${data.length} points`);
      this.draw(chart, data, label);
      fillNumbers(chart.body, data.slice(-kRowsMost).reverse(), label, what.text);
    }
  }

  draw(chart, data, label) {
    const pointRadius = data.length === 1 ? 3 : 0;  // one point makes no line
    if (chart.drawn && chart.drawn.data.datasets[0].pointRadius !== pointRadius) {  // Chart.js keeps what it has made of options
      chart.drawn.destroy();
      chart.drawn = null;
    }
    if (chart.drawn) {
      chart.drawn.data.datasets[0].data = data;
      chart.drawn.update('none');
      return;
    }
    const {what} = chart, grid = colourOf('--grid'), text = colourOf('--soft'), colour = colourOf(what.colour);
    chart.drawn = new Chart(chart.canvas, {
      type: 'line',
      data: {datasets: [{data, borderColor: colour, backgroundColor: colour, borderWidth: 1.5, pointRadius, pointHitRadius: 8, tension: 0}]},
      options: {
        animation: false, parsing: false, normalized: true, maintainAspectRatio: false, responsive: true,
        interaction: {mode: 'nearest', axis: 'x', intersect: false},
        scales: {
          x: {type: 'linear', min: undefined, ticks: {color: text, maxTicksLimit: 5, maxRotation: 0, callback: label}, grid: {color: grid}, bounds: 'data'},
          y: {beginAtZero: what.isZeroBased === true, ticks: {color: text, maxTicksLimit: 5, callback: (value) => what.text(value)}, grid: {color: grid}},
        },
        plugins: {legend: {display: false}, tooltip: {callbacks: {title: (items) => `${what.from === 'steps' ? 'step ' : ''}${label(items[0].parsed.x)}`, label: (item) => what.text(item.parsed.y)}}},
      },
    });
  }
}

function fillNumbers(body, points, label, text) {
  while (body.rows.length > points.length) body.deleteRow(-1);
  points.forEach((point, i) => {
    const row = body.rows[i] ?? body.insertRow();
    while (row.cells.length < 2) row.insertCell();
    row.cells[1].className = 'number';
    say(row.cells[0], label(point.x));
    say(row.cells[1], text(point.y));
  });
}
