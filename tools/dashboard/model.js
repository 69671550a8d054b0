// What a frame says, made ready for the views: actors by id, edges with both ends known, and how mailboxes grew.
import {isNumber} from './format.js';

const kDepths = 60;  // frames that a sparkline shows
const kStuckFactor = 5, kStuckMinS = 10;
const kSlowFrom = 1.1;  // times its equals

const list = (value) => (Array.isArray(value) ? value : []);

export class Model {
  constructor() {
    this.frame = null;
    this.depths = new Map();  // id -> the last depths of its mailbox
    this.lastReports = new Map();  // rank -> its last that was an answer
  }

  take(frame) {
    const before = this.job?.job;
    this.frame = frame;
    this.at = frame.at_unix_s ?? 0;
    this.job = frame.job ?? {};
    if (before !== undefined && before !== this.job.job) {
      this.depths.clear();
      this.lastReports.clear();
    }
    this.ranks = list(frame.ranks).slice().sort((a, b) => a.rank - b.rank);
    this.byRank = new Map(this.ranks.map((report) => [report.rank, report]));
    this.silent = this.ranks.filter((report) => !report.answered);
    for (const report of this.ranks) if (report.answered) this.lastReports.set(report.rank, report);
    this.training = this.ranks.find((report) => report.training)?.training ?? frame.job?.training ?? null;
    this.waits = {nodes: [], edges: [], cycles: [], roots: [], chain: [], text: '', ...(frame.waits ?? {})};
    this.stuckAfter_s = Math.max(kStuckMinS, kStuckFactor * (this.training?.median_step_s ?? 0));
    this.actors = [];
    this.byId = new Map();
    this.failed = [];
    for (const report of this.ranks) {
      for (const row of list(report.actors)) {
        const actor = {...row, rank: report.rank, id: `${report.rank}/${row.name}`};
        actor.stuck_s = this.stuckFor(actor);
        this.actors.push(actor);
        this.byId.set(actor.id, actor);
      }
      for (const row of list(report.tombstones)) {
        if (row.cause && row.cause !== 'OK') this.failed.push({...row, rank: report.rank});
      }
    }
    this.edges = this.edgesOfAll();
    this.inCycle = new Set(list(this.waits.cycles).flat());
    for (const actor of this.actors) this.noteDepth(actor);
  }

  // How long it has not got on although it has something to do; 0: it gets on. Who waits for input is held up by somebody else.
  stuckFor(actor) {
    const busy = ['handling', 'running', 'waiting_for_credit', 'waiting_for_collective', 'waiting_for_event'].includes(actor.state);
    const for_s = Math.max(busy ? actor.since_s ?? 0 : 0, actor.depth > 0 && actor.state !== 'paused' ? actor.oldest_s ?? 0 : 0);
    return for_s >= this.stuckAfter_s ? for_s : 0;
  }

  noteDepth(actor) {
    let past = this.depths.get(actor.id);
    if (!past) this.depths.set(actor.id, past = []);
    past.push(actor.depth ?? 0);
    if (past.length > kDepths) past.shift();
  }

  // An edge between two ranks is told by both: the sender's row counts.
  edgesOfAll() {
    const all = new Map();
    for (const report of this.ranks) {
      for (const row of list(report.edges)) {
        const edge = {...row, rank: report.rank};
        edge.fromId = this.end(row.from, row.from_rank, report.rank);
        edge.toId = this.end(row.to, row.to_rank, report.rank);
        const key = `${edge.fromId} ${edge.toId} ${row.name}`;
        if (!all.has(key) || !(isNumber(row.from_rank) && row.from_rank >= 0)) all.set(key, edge);
      }
    }
    return [...all.values()];
  }

  // "stage-0.activation" or "stage-1@1.activation", told by rank `here`, as an actor's id. Names may have dots.
  end(port, farRank, here) {
    const text = String(port ?? '');
    let name = text;
    let rank = isNumber(farRank) && farRank >= 0 ? farRank : here;
    for (let dot = text.length; dot > 0; dot = text.lastIndexOf('.', dot - 1)) {
      name = text.slice(0, dot);
      if (this.hasActor(rank, name)) return `${rank}/${name}`;
      const far = /^(.*)@(\d+)$/.exec(name);
      if (far && this.byRank.has(Number(far[2]))) {
        if (this.hasActor(Number(far[2]), far[1])) return `${far[2]}/${far[1]}`;
        rank = Number(far[2]);
      }
    }
    const dot = text.lastIndexOf('.');
    return `${rank}/${(dot > 0 ? text.slice(0, dot) : text).replace(/@\d+$/, '')}`;
  }

  hasActor(rank, name) {
    const report = this.byRank.get(rank);
    if (!report) return false;
    report.names_ ??= new Set(list(report.actors).map((row) => row.name));
    return report.names_.has(name);
  }

  memory() {  // of a silent rank as it was last; null while nothing is known of one
    const reports = this.ranks.map((report) => (report.answered ? report : this.lastReports.get(report.rank)));
    if (reports.includes(undefined)) return null;
    const processes = new Map();  // where one has several ranks, each says that of all
    for (const report of reports) if (isNumber(report.memory_bytes)) processes.set(`${report.host} ${report.pid}`, report);
    const known = [...processes.values()];
    if (!known.length) return null;
    return {
      bytes: known.reduce((sum, report) => sum + report.memory_bytes, 0),
      peak: known.reduce((sum, report) => sum + (report.memory_peak_bytes ?? report.memory_bytes), 0),
    };
  }

  // Of one rank, worst first: what its cell shows.
  rankState(report) {
    if (!report.answered) return 'silent';
    const rows = list(report.actors);
    if (rows.some((row) => this.inCycle.has(`${report.rank}/${row.name}`) || this.byId.get(`${report.rank}/${row.name}`)?.stuck_s)) return 'stuck';
    for (const state of ['running', 'handling', 'waiting_for_collective', 'waiting_for_credit', 'ready', 'paused']) {
      if (rows.some((row) => row.state === state)) return state;
    }
    return 'idle';
  }

  // The rank whose compute stream works longest in a step, against the median of those with the same stages; null: none stands out.
  // As runtime/trace has it (straggler.h), and newer frames say it.
  straggler() {
    if (this.frame.straggler !== undefined) return this.frame.straggler;
    const equals = new Map();
    for (const report of this.ranks) {
      const spent_s = list(report.streams).find((stream) => stream.kind === 'compute')?.step_busy_s ?? 0;
      if (!report.answered || !(spent_s > 0)) continue;
      const stages = list(report.actors).map((row) => row.name).filter((name) => name.startsWith('stage-') && !name.includes('@')).sort().join(' ');
      if (!equals.has(stages)) equals.set(stages, []);
      equals.get(stages).push({rank: report.rank, step_busy_s: spent_s});
    }
    let slowest = null;
    for (const members of equals.values()) {
      members.sort((a, b) => b.step_busy_s - a.step_busy_s);
      const [first, ...others] = members;
      if (!others.length) continue;
      const half = others.length >> 1;
      const median_s = others.length % 2 ? others[half].step_busy_s : (others[half - 1].step_busy_s + others[half].step_busy_s) / 2;
      const ratio = first.step_busy_s / median_s;
      if (ratio >= kSlowFrom && ratio > (slowest?.ratio ?? 0)) slowest = {...first, median_s, ratio};
    }
    return slowest;
  }

  // Where the wall time went: useful and lost, which add up.
  goodput() {
    const training = this.training;
    if (!training || !isNumber(training.wall_s) || training.wall_s <= 0) return null;
    const lost = list(training.badput).map((row) => ({type: String(row.type), seconds: row.seconds ?? 0})).sort((a, b) => b.seconds - a.seconds);
    const sum = lost.reduce((total, row) => total + row.seconds, 0);
    const useful = isNumber(training.useful_s) ? training.useful_s : isNumber(training.goodput_ratio) ? training.goodput_ratio * training.wall_s : Math.max(0, training.wall_s - sum);
    return {wall_s: training.wall_s, useful_s: useful, lost, unexplained_s: training.wall_s - useful - sum};
  }
}
