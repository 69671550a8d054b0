#!/usr/bin/env python3
"""Staged jobs as files of frames, for `troupe dashboard --replay`: what a real job shows only with luck.

staged.py SCENE FILE [SECONDS]: writes one. Scenes: see SCENES. The numbers are made up; their names and meanings are those of
runtime/trace/SCHEMA.md.
"""
import json
import math
import random
import sys

START = 1_700_000_000.0
LONG = "shard-of-the-embedding-whose-name-somebody-made-from-a-whole-path/" + "model.layers.mixture_of_experts." * 6 + "weight"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def actor(name, state="idle", detail="", number=-1, since_s=0.2, depth=0, oldest_s=0.0, handled=100, **more):
    return {"name": name, "state": state, "detail": detail, "number": number, "since_s": since_s, "depth": depth, "depth_max": max(3, depth),
            "oldest_s": oldest_s, "sent": handled + depth, "handled": handled, "dead": 0, "handling_s": handled * 1e-4, "restarts": 0,
            "events_lost": 0, **more}


def edge(from_, to, free, capacity, from_rank=-1, to_rank=-1, queued=0, sent=100):
    return {"name": f"{from_} -> {to}", "from": from_, "to": to, "from_rank": from_rank, "to_rank": to_rank, "capacity": capacity, "free": free,
            "in_flight": capacity - free, "queued": queued, "held": capacity - free - queued, "taken": sent, "sent": sent, "delivered": sent - queued,
            "returned": sent - capacity + free, "reclaimed": sent - capacity + free, "bytes": sent * 65536, "bytes_per_s": 3.2e6}


def report(rank, now, actors, edges=(), **more):
    return {"schema": 1, "rank": rank, "host": f"node-{rank // 8}", "answered": True, "error": "", "silent_s": 0.0, "pid": 4000 + rank, "at_unix_s": now,
            "probe_s": now - START, "actors": actors, "edges": list(edges), "streams": more.pop("streams", []), "collectives": [], "tombstones": [],
            "tombstones_dropped": 0, "memory_bytes": 900_000_000 + 10_000_000 * (rank % 7), "memory_peak_bytes": 1_000_000_000, **more}


def silent(rank, error, silent_s):
    return {"schema": 1, "rank": rank, "host": f"node-{rank // 8}", "answered": False, "error": error, "silent_s": silent_s}


def training(step, now, open_s=0.4, steps=2000):
    wall = now - START + 60
    lost = {"startup": 6.0, "data_wait": 0.01 * wall, "checkpoint_wait": 0.02 * wall, "evaluation_wait": 0.0, "skipped": 0.0, "between_steps": 0.3,
            "overdue": max(0.0, open_s - 1.05)}
    useful = wall - sum(lost.values())
    return {"step": step, "steps": steps, "loss": 2.0 + 8.5 * math.exp(-step / 90) + 0.08 * math.sin(step * 1.7), "grad_norm": 1.1, "lr": 3e-4,
            "tokens": step * 65536, "tokens_per_s": 61000 + 2500 * math.sin(step / 3), "mfu_ratio": 0.41 + 0.02 * math.sin(step / 3), "step_s": 1.05,
            "median_step_s": 1.05, "data_wait_s": 0.01, "checkpoint_wait_s": 0.0, "wall_s": wall, "useful_s": useful, "goodput_ratio": useful / wall,
            "badput": [{"type": key, "seconds": value} for key, value in lost.items()], "skipped_steps": 0, "restarts": 0, "step_open_s": open_s}


def no_waits():
    return {"schema": 1, "nodes": [], "edges": [], "cycles": [], "roots": [], "chain": [], "text": ""}


def frame(now, ranks, waits=None, **more):
    return {"schema": 1, "at_unix_s": now,
            "job": {"job": "5ca1ab1e", "output": "/runs/llama-staged", "program": "troupe train llama.toml", "world": len(ranks), "started_unix_s": START - 60},
            "ranks": ranks, "waits": waits or no_waits(), **more}


def pipeline_rank(rank, now, stages, tick, first=0, shards=6, with_ledger=False):
    """A rank of `stages` stages fed by a source, as a real one shows itself."""
    actors = [actor("supervisor"), actor("device", "running", "forward", tick, 0.01), actor("weights")]
    actors += [actor(f"shard-{i}", handled=40 * tick) for i in range(shards)]
    edges = []
    for stage in range(first, first + stages):
        states = [("running", "forward", 0), ("waiting_for_input", "gradient", 1), ("ready", "", 2), ("waiting_for_credit", "activation", 1)]
        state, detail, depth = states[(stage + tick) % len(states)]
        actors.append(actor(f"stage-{stage}", state, detail, tick, 0.03, depth, 0.02 * depth, 80 * tick))
        edges.append(edge(f"source.batch-{stage}", f"stage-{stage}.batch", 2, 4, sent=20 * tick))
        if stage > first:
            edges.append(edge(f"stage-{stage - 1}.activation", f"stage-{stage}.activation", (stage + tick) % 4, 4, queued=1 if (stage + tick) % 4 < 3 else 0, sent=20 * tick))
            edges.append(edge(f"stage-{stage}.gradient", f"stage-{stage - 1}.gradient", 2, 2, sent=20 * tick))
    actors += [actor("source", "ready", depth=1, oldest_s=0.01), actor("replica"), actor("checkpoint-writer")]
    if with_ledger:
        actors += [actor("reporter"), actor("ledger", "waiting_for_input", "loss", tick, 0.4)]
    return actors, edges


def streams(tick, step_busy_s=0.95):
    return [{"name": "compute", "kind": "compute", "busy_ratio": 0.93, "busy_s": 100.0, "queued": 2, "done": 1000, "running": "forward block 3", "step_busy_s": step_busy_s, "running_s": 0.01},
            {"name": "storage", "kind": "storage", "busy_ratio": 0.04, "busy_s": 4.0, "queued": 0, "done": 30, "running": "", "step_busy_s": 0.0, "running_s": 0.0}]


def trace(now, ranks):
    """Two steps of 1F1B, as /v1/trace gives them."""
    reports = []
    for rank in range(ranks):
        operations, at = [], now - START - 6
        for step in range(5):
            for micro in range(4):
                for name, took in (("forward", 0.09), ("input_gradient", 0.1), ("weight_gradient", 0.06)):
                    operations.append({"name": f"{name} of stage {rank}", "step": 40 + step, "micro": micro, "begin_s": at + 0.04 * rank, "end_s": at + 0.04 * rank + took})
                    at += took + 0.004
            operations.append({"name": "update", "step": 40 + step, "micro": -1, "begin_s": at + 0.05, "end_s": at + 0.12})
            at += 0.14
        files = [{"name": "write", "step": -1, "micro": -1, "begin_s": now - START - 3, "end_s": now - START - 2.1}]
        reports.append({"rank": rank, "at_unix_s": now, "probe_s": now - START, "streams": [{"name": "compute", "lost": 0, "operations": operations}, {"name": "storage", "lost": 0, "operations": files}], "actors": [], "counters": []})
    return {"schema": 1, "job": "5ca1ab1e", "ranks": reports}


def healthy(seconds):
    """Two ranks of two stages that train."""
    for tick in range(seconds):
        now, ranks = START + tick, []
        for rank in range(2):
            actors, edges = pipeline_rank(rank, now, 2, tick + 1, with_ledger=rank == 0)
            more = {"training": training(40 + tick, now)} if rank == 0 else {}
            ranks.append(report(rank, now, actors, edges, streams=streams(tick), **more))
        yield frame(now, ranks, trace=trace(now, 2))


def failing(seconds):
    """Of four ranks, rank 2 falls silent after two seconds, and an actor of rank 1 has ended with an error."""
    for tick in range(seconds):
        now, ranks = START + tick, []
        for rank in range(4):
            if rank == 2 and tick >= 2:
                ranks.append(silent(2, "no answer within 1.0 s", float(tick)))
                continue
            actors, edges = pipeline_rank(rank, now, 1, tick + 1, first=rank, with_ledger=rank == 0)
            if rank > 0:
                edges.append(edge(f"stage-{rank - 1}@{rank - 1}.activation", f"stage-{rank}.activation", 1, 4, from_rank=rank - 1))
            ranks.append(report(rank, now, actors, edges, **({"training": training(40, now, open_s=1.0 + tick)} if rank == 0 else {})))
        if tick >= 2:
            ranks[1]["tombstones"] = [{"name": "checkpoint-writer", "cause": "cannot write /runs/llama-staged/step-40: No space left on device",
                                       "chain": ["write of 4096 bytes: No space left on device"], "ended_s": 12.0, "sent": 9, "handled": 8, "dead": 1}]
        yield frame(now, ranks)


def stuck(seconds):
    """An actor that handles one message for ever while its mailbox grows; the step stays open."""
    for tick in range(seconds):
        now, age = START + tick, 30.0 + tick
        actors, edges = pipeline_rank(0, now, 2, 3, with_ledger=True)
        actors = [row for row in actors if row["name"] != "reporter"]
        actors.append(actor("reporter", "handling", "StepDone", 41, age, 12 + 3 * tick, age - 1, growth_per_s=3.0))
        waits = no_waits()
        waits["nodes"] = [{"id": "0/ledger", "rank": 0, "actor": "ledger", "state": "waiting_for_input", "detail": "reporter", "number": 41, "since_s": age},
                          {"id": "0/reporter", "rank": 0, "actor": "reporter", "state": "handling", "detail": "StepDone", "number": 41, "since_s": age}]
        waits["edges"] = [{"from": "0/ledger", "to": "0/reporter", "why": "input from reporter"}]
        waits["roots"] = [{"id": "0/reporter", "why": "has been in one handler", "since_s": age}]
        waits["chain"] = ["0/ledger", "0/reporter"]
        waits["text"] = "root: rank 0 reporter: has been in one handler\n"
        yield frame(now, [report(0, now, actors, edges, training=training(41, now, open_s=age))], waits)


def cycle(seconds):
    """red, green and blue wait for each other over two ranks."""
    colours = [("red", 0), ("green", 1), ("blue", 0)]
    for tick in range(seconds):
        now, since = START + tick, 20.0 + tick
        waits = no_waits()
        per_rank = {0: ([], []), 1: ([], [])}
        for i, (name, rank) in enumerate(colours):
            other, other_rank = colours[(i + 1) % 3]
            per_rank[rank][0].append(actor(name, "waiting_for_credit", f"{name}.out", 7, since, 1, since))
            far = other_rank != rank
            per_rank[rank][1].append(edge(f"{name}.out", f"{other}.in" if not far else f"{other}@{other_rank}.in", 0, 2, to_rank=other_rank if far else -1, queued=2))
            waits["nodes"].append({"id": f"{rank}/{name}", "rank": rank, "actor": name, "state": "waiting_for_credit", "detail": f"{name}.out", "number": 7, "since_s": since})
            waits["edges"].append({"from": f"{rank}/{name}", "to": f"{other_rank}/{other}", "why": f"credit of {name}.out"})
        waits["cycles"] = [[f"{rank}/{name}" for name, rank in colours]]
        waits["text"] = "circle: rank 0 red -> rank 1 green -> rank 0 blue -> rank 0 red\n"
        yield frame(now, [report(rank, now, *per_rank[rank]) for rank in (0, 1)], waits)


def names(seconds):
    """Names that are long, and one that is markup."""
    for tick in range(seconds):
        now = START + tick
        actors = [actor(LONG, "waiting_for_input", LONG, 3, 40.0, 5, 40.0), actor(HOSTILE, "handling", HOSTILE, 3, 50.0, 1, 50.0), actor("plain"), actor("שלום-阶段-🎭")]
        waits = no_waits()
        waits["nodes"] = [{"id": f"0/{row['name']}", "rank": 0, "actor": row["name"], "state": row["state"], "detail": row["detail"], "number": 3, "since_s": 40.0} for row in actors[:2]]
        waits["edges"] = [{"from": f"0/{LONG}", "to": f"0/{HOSTILE}", "why": f"input from {HOSTILE}"}]
        waits["roots"] = [{"id": f"0/{HOSTILE}", "why": HOSTILE, "since_s": 50.0}]
        one = report(0, now, actors, [edge(f"{LONG}.out", f"{HOSTILE}.in", 0, 3, queued=3), edge(f"{HOSTILE}.out", "plain.in", 1, 2)], training=training(5, now))
        one["host"] = "host-" + "x" * 80
        yield frame(now, [one], waits)


def many(seconds, world=512):
    """512 ranks, eight stages by 64 replicas; rank 300 is silent, an actor of rank 17 makes no progress, rank 40 computes twice as long."""
    rng = random.Random(1)
    for tick in range(seconds):
        now, ranks = START + tick, []
        for rank in range(world):
            if rank == 300:
                ranks.append(silent(rank, "connection reset by peer", 30.0))
                continue
            actors, edges = pipeline_rank(rank, now, 1, tick + rank, first=rank % 8, with_ledger=rank == 0)
            for row in actors:
                row["depth"] = rng.choice((0, 0, 0, 1, 2))
            if rank == 17:
                actors[-2].update(state="waiting_for_collective", detail="gradient of block 3", since_s=44.0)
            if rank % 8 < 7:
                edges.append(edge(f"stage-{rank % 8}.activation", f"stage-{rank % 8 + 1}@{rank + 1}.activation", 2, 4, to_rank=rank + 1))
            ranks.append(report(rank, now, actors, edges, streams=streams(tick, 1.9 if rank == 40 else 0.95), **({"training": training(40 + tick, now)} if rank == 0 else {})))
        yield frame(now, ranks)


SCENES = {scene.__name__: scene for scene in (healthy, failing, stuck, cycle, names, many)}


def write(scene, path, seconds=20):
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"schema":1,"format":"troupe frames"}\n')
        for one in SCENES[scene](seconds):
            file.write(json.dumps(one, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in SCENES:
        sys.exit(f"usage: staged.py {'|'.join(SCENES)} FILE [SECONDS]")
    write(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else 20)
