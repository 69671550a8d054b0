// The series of the training: what the server kept, and what frames add since.
import {isNumber} from './format.js';

const kPointsMost = 4000;
const kAgainMs = 5000;

export class History {
  constructor(ask) {
    this.ask = ask;
    this.steps = [];   // by step
    this.memory = [];  // by time
    this.version = 0;
    this.loaded = 0;
  }

  async load() {
    this.loaded = performance.now();
    const {answer} = await this.ask('/v1/history');
    if (!answer) return;
    const last = answer.steps.length ? answer.steps[answer.steps.length - 1].step : -1;
    const later = this.run === answer.run ? this.steps.filter((point) => point.step > last) : [];
    this.run = answer.run;
    this.steps = answer.steps.concat(later);
    this.memory = answer.memory ?? [];
    ++this.version;
  }

  take(model) {
    const training = model.training;
    if (training && isNumber(training.step) && training.step > 0) this.add(training);
    const memory = model.memory();
    if (memory) {
      this.memory.push({at_unix_s: model.at, bytes: memory.bytes, peak_bytes: memory.peak});
      if (this.memory.length > kPointsMost) this.memory = this.memory.filter((_, i) => i % 2 === 1);
    }
    ++this.version;
    // Frames come once a second and steps may be shorter: the server has read them all.
    if (performance.now() - this.loaded > kAgainMs) this.load();
  }

  add(training) {
    const last = this.steps[this.steps.length - 1];
    if (last && training.step === last.step) return;
    if (last && training.step < last.step) this.steps = this.steps.filter((point) => point.step < training.step);  // resumed from a checkpoint
    const {step, loss, tokens_per_s, mfu_ratio, step_s} = training;
    this.steps.push({step, loss, tokens_per_s, mfu_ratio, step_s});
    if (this.steps.length > kPointsMost) this.steps = this.steps.filter((_, i) => i % 2 === 1);
  }
}
