// The page: header, tiles, findings, and the chosen view, kept up to date from the feed.
import {bytes, clock, count, duration, element, percent, rows, say} from './format.js';
import {ask, follow} from './feed.js';
import {findings} from './findings.js';
import {Model} from './model.js';
import {History} from './history.js';
import {Details} from './details.js';
import {OverviewView} from './overview.js';
import {MailboxView} from './mailboxes.js';
import {ChartsView} from './charts.js';
import {TimelineView} from './timeline.js';
import {WaitsView} from './waits.js';
import {GoodputView} from './goodput.js';
import {RanksView} from './ranks.js';

const model = new Model();
const history = new History(ask);
const details = new Details({ask});
const parts = {ask, history, open: (id) => details.open(id, model)};
const views = [
  {key: 'overview', title: 'Overview', view: new OverviewView(parts)},
  {key: 'mailboxes', title: 'Mailboxes', view: new MailboxView(parts)},
  {key: 'training', title: 'Training', view: new ChartsView(parts)},
  {key: 'timeline', title: 'Timeline', view: new TimelineView(parts)},
  {key: 'waits', title: 'Waits', view: new WaitsView(parts)},
  {key: 'goodput', title: 'Goodput', view: new GoodputView()},
  {key: 'ranks', title: 'Ranks', view: new RanksView(parts)},
];

const byId = (id) => document.getElementById(id);
let chosen = views[0];

function buildViews() {
  for (const view of views) {
    view.tab = element('button', {type: 'button', role: 'tab', id: `tab-${view.key}`, 'aria-controls': `view-${view.key}`, onclick: () => choose(view)});
    view.tab.append(view.title);
    view.mark = element('span', {class: 'tab-mark'});
    view.tab.append(view.mark);
    view.panel = element('div', {role: 'tabpanel', id: `view-${view.key}`, 'aria-labelledby': `tab-${view.key}`}, view.view.root);
    byId('tabs').append(view.tab);
    byId('main').append(view.panel);
  }
  byId('tabs').addEventListener('keydown', (event) => {
    const i = views.indexOf(chosen);
    const to = {ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: views.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(views[(to + views.length) % views.length]);
    chosen.tab.focus();
  });
}

function choose(view) {
  chosen = view;
  for (const each of views) {
    const isChosen = each === view;
    each.tab.setAttribute('aria-selected', String(isChosen));
    each.tab.tabIndex = isChosen ? 0 : -1;
    each.panel.hidden = !isChosen;
  }
  view.tab.scrollIntoView({block: 'nearest', inline: 'nearest'});
  if (model.frame) view.view.update(model);
}

// Light, dark, or as the system has it.
const kThemes = {auto: 'Theme: auto', light: 'Theme: light', dark: 'Theme: dark'};
function setTheme(theme) {
  localStorage.setItem('theme', theme);
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  say(byId('theme'), kThemes[theme]);
  dispatchEvent(new Event('theme'));
}
function buildTheme() {
  const names = Object.keys(kThemes);
  let theme = names.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'auto';
  setTheme(theme);
  byId('theme').addEventListener('click', () => setTheme(theme = names[(names.indexOf(theme) + 1) % names.length]));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dispatchEvent(new Event('theme')));
}

function showTiles() {
  const training = model.training, memory = model.memory(), goodput = model.goodput();
  const answered = model.ranks.length - model.silent.length;
  const tiles = [
    ['Ranks', model.silent.length ? `${answered}/${model.ranks.length}` : String(model.ranks.length), model.silent.length ? 'bad' : ''],
    ['Actors', count(model.actors.length)],
  ];
  if (training) {
    tiles.unshift(['Step', training.steps ? `${training.step}/${training.steps}` : String(training.step ?? '–')],
      ['Loss', typeof training.loss === 'number' ? training.loss.toPrecision(4) : '–'], ['Tokens/s', count(training.tokens_per_s)], ['MFU', percent(training.mfu_ratio)],
      [typeof training.median_step_s === 'number' ? 'Median step' : 'A step', duration(training.median_step_s ?? training.step_s)]);
  }
  if (goodput) tiles.push(['Goodput', percent(goodput.useful_s / goodput.wall_s)]);
  if (memory) tiles.push(['Memory', bytes(memory.bytes)]);
  if (!training) {
    tiles.push(['In mailboxes', count(model.actors.reduce((sum, actor) => sum + (actor.depth ?? 0), 0))]);
    if (model.job.started_unix_s) tiles.push(['Running for', duration(model.at - model.job.started_unix_s)]);
  }
  rows(byId('tiles'), tiles, () => element('div', {class: 'tile'}, element('span', {class: 'tile-name'}), element('span', {class: 'tile-value'})), (tile, [name, value, class_]) => {
    tile.className = `tile ${class_ ?? ''}`;
    say(tile.children[0], name);
    say(tile.children[1], class_ === 'bad' ? `! ${value}` : value);
  });
}

let announced = new Set();
function showFindings() {
  const found = findings(model);
  rows(byId('findings'), found, () => {
    const item = element('li', {}, element('button', {type: 'button'}, element('span', {'aria-hidden': 'true', class: 'finding-sign'}), element('span', {class: 'finding-text'})));
    item.firstChild.addEventListener('click', () => {
      const {view, id} = item.finding;
      choose(views.find((each) => each.key === view));
      if (id) details.open(id, model);
      else chosen.tab.focus();
    });
    return item;
  }, (item, finding) => {
    item.finding = finding;
    item.className = finding.level;
    const [mark, text] = item.firstChild.children;
    say(mark, finding.level === 'bad' ? '!' : '▲');
    say(text, finding.text);
  });
  // Read aloud once, not with each second that it counts.
  const fresh = found.filter((finding) => !announced.has(finding.key));
  announced = new Set(found.map((finding) => finding.key));
  if (fresh.length) say(byId('news'), fresh.map((finding) => finding.text).join('. '));
  const marked = new Map(found.map((finding) => [finding.view, true]));
  for (const view of views) say(view.mark, marked.has(view.key) ? ' !' : '');
}

let status = {state: 'connecting', why: ''};
function showStatus() {
  const words = {
    connecting: 'connecting', live: 'live', waiting: 'the job does not answer', ended: 'the job has ended', replay: 'recorded',
    replay_ended: 'recorded, at its end', lost: 'the dashboard does not answer: trying again',
  };
  const last = model.frame && !['live', 'replay'].includes(status.state) ? `; the picture is of ${clock(model.at)}` : '';
  say(byId('status'), `${words[status.state] ?? status.state}${status.why ? `: ${status.why}` : ''}${last}`);
  byId('status').className = `status status-${Object.hasOwn(words, status.state) ? status.state : 'waiting'}`;
  document.body.classList.toggle('old', ['waiting', 'ended', 'lost'].includes(status.state));
}

function showJob() {
  const {job, output, program} = model.job;
  const text = `${job ?? ''}${output ? ` · ${output}` : program ? ` · ${program}` : ''}`;
  say(byId('job'), text);
  byId('job').title = program ?? '';
  const title = `${model.silent.length || model.waits.cycles.length ? '! ' : ''}${model.training?.step ? `step ${model.training.step} · ` : ''}Troupe ${job ?? ''}`;
  if (document.title !== title) document.title = title;
}

async function loadHistory() {
  await history.load();
  if (model.frame) chosen.view.update(model);
}

let last = null;
function take(frame) {
  const began = performance.now();
  model.take(frame);
  if (last !== null && last !== model.job.job) loadHistory();
  last = model.job.job;
  history.take(model);
  showJob();
  showTiles();
  showFindings();
  chosen.view.update(model);
  details.update(model);
  // For the tests: how many frames there were, and how long the last one took to show.
  document.body.dataset.frames = String(Number(document.body.dataset.frames ?? 0) + 1);
  document.body.dataset.frameMs = (performance.now() - began).toFixed(1);
}

buildViews();
buildTheme();
choose(views[0]);
showStatus();
loadHistory();
follow({
  frame: take,
  status(news) {
    const isNews = status.state !== news.state;
    status = news;
    showStatus();
    if (isNews) loadHistory();  // the last steps of a job that has ended came after its last frame
  },
  lost(why) {
    status = {state: 'lost', why};
    showStatus();
  },
});
