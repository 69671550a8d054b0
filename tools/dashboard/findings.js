// What stands out, said in a sentence each; most important first.
import {duration, stateText} from './format.js';

const kMost = 6;

const kNameMost = 48;

function short(name) {
  return name.length <= kNameMost ? name : `${name.slice(0, kNameMost / 2)}…${name.slice(-kNameMost / 2)}`;
}

function named(id) {
  const slash = id.indexOf('/');
  const name = short(id.slice(slash + 1));
  return name ? `${name} of rank ${id.slice(0, slash)}` : `rank ${id.slice(0, slash)}`;
}

function ranksText(ranks) {
  const shown = ranks.slice(0, 8).map((report) => report.rank).join(', ');
  return ranks.length > 8 ? `${shown} and ${ranks.length - 8} more` : shown;
}

// [{key, level: 'bad' | 'warn', text, view, id}]: `key` stays while it is the same one, though its text counts seconds.
export function findings(model) {
  const found = [];
  for (const cycle of model.waits.cycles.slice(0, 2)) {
    found.push({key: `circle ${cycle.join(' ')}`, level: 'bad', view: 'waits', text: `A circle: ${[...cycle, cycle[0]].map(named).join(' waits for ')}`});
  }
  if (model.silent.length) {
    const why = model.silent[0].error ? `: ${model.silent[0].error}` : '';
    found.push({key: `silent ${ranksText(model.silent)}`, level: 'bad', view: 'ranks', text: `${model.silent.length === 1 ? 'Rank' : 'Ranks'} ${ranksText(model.silent)} gave no answer${why}`});
  }
  for (const row of model.failed.slice(-2)) {
    found.push({key: `ended ${row.rank}/${row.name}`, level: 'bad', view: 'ranks', text: `${short(row.name)} of rank ${row.rank} ended: ${[...(row.chain ?? []), row.cause].filter((text, i, all) => all.indexOf(text) === i).join('; then ')}`});
  }
  const training = model.training;
  if (training && training.step_open_s > model.stuckAfter_s) {
    const chain = model.waits.chain ?? [];
    const last = chain.length > 1 ? `; the ledger waits in the end for ${named(chain[chain.length - 1])}` : '';
    found.push({key: 'open step', level: 'bad', view: 'waits', text: `The open step has taken ${duration(training.step_open_s)}, a usual one ${duration(training.median_step_s)}${last}`});
  }
  const stuck = model.actors.filter((actor) => actor.stuck_s > 0 && !model.inCycle.has(actor.id)).sort((a, b) => b.stuck_s - a.stuck_s);
  for (const actor of stuck.slice(0, 2)) {
    const mail = actor.depth > 0 ? `, ${actor.depth} in its mailbox, the oldest ${duration(actor.oldest_s)}` : '';
    found.push({key: `stuck ${actor.id}`, level: 'warn', view: 'mailboxes', id: actor.id, text: `${named(actor.id)} has made no progress for ${duration(actor.stuck_s)}: ${stateText({...actor, detail: short(actor.detail ?? '')})}${mail}`});
  }
  if (stuck.length > 2) found.push({key: 'more stuck', level: 'warn', view: 'mailboxes', text: `${stuck.length - 2} more ${stuck.length === 3 ? 'actor makes' : 'actors make'} no progress`});
  const slow = model.straggler();
  if (slow) found.push({key: `slow ${slow.rank}`, level: 'warn', view: 'ranks', text: `Rank ${slow.rank} computes ${slow.ratio.toFixed(1)} times as long as its equals: ${duration(slow.step_busy_s)} of a step, they ${duration(slow.median_s)}`});
  const paused = model.actors.filter((actor) => actor.state === 'paused');
  if (paused.length) found.push({key: `paused ${paused.length}`, level: 'warn', view: 'mailboxes', id: paused[0].id, text: `${paused.length} paused: ${paused.slice(0, 3).map((actor) => named(actor.id)).join(', ')}`});
  return found.slice(0, kMost);
}
