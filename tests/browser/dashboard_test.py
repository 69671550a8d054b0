#!/usr/bin/env python3
"""The dashboard in headless Chromium: dashboard_test.py [PART OF A NAME]. Prints as GoogleTest does, so that tools/test counts it.

TROUPE_BINARY: the tool. TROUPE_PICTURES: a folder for pictures of what was seen.
"""
import fnmatch
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback

import staged
from browser import PATIENCE_S, Dashboard, Page, Process, start_chromium, wait_for

FRAME_MS_MOST = 1500  # that a frame of 512 ranks may take to show on a machine with other work; measured: 30 to 150


class Dashboards:
    """Each test's own folder, and dashboards of staged jobs."""

    def __init__(self, page):
        self.page = page
        self.folder = tempfile.mkdtemp(prefix="troupe-browser-")

    def path(self, name):
        return os.path.join(self.folder, name)

    def replay(self, scene, seconds=600, speed=1):
        path = self.path(f"{scene}.jsonl")
        staged.write(scene, path, seconds)
        return Dashboard(["--replay", path, "--speed", str(speed)])

    def clean(self):
        shutil.rmtree(self.folder)


# --- staged jobs

def loads_without_errors_and_without_others(at):
    """No error in the console, no request to another server, in any view."""
    page = at.page
    with at.replay("healthy", 60) as dashboard:
        page.open(dashboard.url)
        for view in page.js("return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.id.slice(4))"):
            page.shown(view)
            page.next_frame()
            page.picture(f"healthy-{view}")
        urls = page.requests()
        assert any(url.endswith("/v1/stream") for url in urls), urls
        others = [url for url in urls if not url.startswith(dashboard.url)]
        assert not others, others
        assert page.errors() == []
        policy = page.js("const asked = new XMLHttpRequest(); asked.open('GET', '/', false); asked.send(); return asked.getResponseHeader('Content-Security-Policy')")
        assert "default-src 'none'" in policy and "http" not in policy and "unsafe" not in policy, policy


def goes_on_by_itself(at):
    """Frames that come later change tiles, chart and mailboxes without a reload."""
    page = at.page
    with at.replay("healthy", 600) as dashboard:
        page.open(dashboard.url)
        before = page.text(".tile-value")
        wait_for("another step", lambda: page.text(".tile-value") != before)
        points = page.js("return document.querySelector('.chart canvas').getAttribute('aria-label')")
        wait_for("another point", lambda: page.js("return document.querySelector('.chart canvas').getAttribute('aria-label')") != points)
        assert page.text("#status") == "recorded"


def says_when_the_record_ends(at):
    page = at.page
    with at.replay("healthy", 4, speed=10) as dashboard:
        page.open(dashboard.url)
        page.expect("#status", "at its end")
        page.expect("#status", "4 frames")
        assert page.text(".tile-value") == "43/2000"  # the last picture stays


def shows_the_failing_rank(at):
    page = at.page
    with at.replay("failing", 600, speed=2) as dashboard:
        page.open(dashboard.url)
        page.expect("#findings", "Rank 2 gave no answer: no answer within 1.0 s")
        page.expect("#findings", "checkpoint-writer of rank 1 ended: write of 4096 bytes: No space left on device")
        assert "! 3/4" in page.texts(".tile-value")
        assert "rank 2 · no answer" in page.text(".is-silent-rank .group-title")
        page.picture("failing-overview")
        page.shown("ranks")
        page.expect(".ranks tbody tr:nth-child(1)", "checkpoint-writer ended")
        page.expect(".ranks tbody tr:nth-child(2)", "gave no answer")
        assert page.texts(".ranks tbody tr:nth-child(3) td")[0] == "0"  # what is well comes after
        page.picture("failing-ranks")


def shows_the_stuck_actor(at):
    page = at.page
    with at.replay("stuck") as dashboard:
        page.open(dashboard.url)
        page.expect("#findings", "reporter of rank 0 has made no progress for")
        page.expect("#findings", "the ledger waits in the end for reporter of rank 0")
        page.expect(".node.stands-out", "reporter")
        read_aloud = page.text("#news")
        assert "reporter of rank 0 has made no progress" in read_aloud
        page.next_frame()
        assert page.text("#news") == read_aloud  # once, though its seconds go on
        page.picture("stuck-overview")
        page.shown("mailboxes")
        page.expect(".mail tbody tr:first-child", "0/reporter")  # the fullest first
        page.expect(".mail tbody tr:first-child.stands-out", "handling StepDone")
        page.frames(4)
        spark = page.js("return document.querySelector('.mail tbody tr:first-child .spark-line').getAttribute('points')").split()
        assert len(spark) >= 4 and float(spark[0].split(",")[1]) > float(spark[-1].split(",")[1]), spark  # it grows
        page.picture("stuck-mailboxes")
        page.shown("waits")
        page.expect("#view-waits", "has been in one handler")
        page.picture("stuck-waits")


def shows_the_circle(at):
    page = at.page
    with at.replay("cycle") as dashboard:
        page.open(dashboard.url)
        page.expect("#findings .bad", "A circle: red of rank 0 waits for green of rank 1 waits for blue of rank 0 waits for red of rank 0")
        assert len(page.texts(".node.stands-out")) == 3
        assert page.js("return document.querySelectorAll('.edge.starved').length") == 3
        page.picture("cycle-overview")
        page.js("document.querySelector('#findings .bad button').click()")
        chips = page.texts("#view-waits .panel.bad .chip")
        assert [chip.split()[1] for chip in chips] == ["red", "green", "blue", "red"], chips
        page.expect("#view-waits .panel.bad", "waits for credit of red.out")
        page.picture("cycle-waits")


def goodput_adds_up_to_the_wall_time(at):
    page = at.page
    with at.replay("healthy", 60) as dashboard:
        page.open(dashboard.url)
        page.shown("goodput")
        page.expect("#view-goodput", "waiting for a snapshot")
        rows, wall = page.js("return [[...document.querySelectorAll('#view-goodput tbody tr td:nth-child(2)')].map((cell) => Number(cell.textContent)), Number(document.querySelector('#view-goodput tfoot td').textContent)]")
        assert abs(sum(rows) - wall) < 0.06 * len(rows), (rows, wall)


def shows_the_timeline(at):
    page = at.page
    with at.replay("healthy", 60) as dashboard:
        page.open(dashboard.url)
        page.shown("timeline")
        wait_for("the operations", lambda: "forward" in page.text("#view-timeline .keys"))
        page.js("document.querySelector('#view-timeline canvas').focus()")
        page.key("ARROW_RIGHT", "ARROW_LEFT")
        page.expect("#time-told", "weight_gradient of stage 0, step 44, micro-batch 3, 60 ms")
        page.key("ARROW_DOWN", "ARROW_DOWN")
        page.expect("#time-told", "1/compute")
        page.picture("healthy-timeline-chosen")
    with at.replay("cycle") as dashboard:
        page.open(dashboard.url)
        page.shown("timeline")
        page.expect("#view-timeline .hint", "no timeline from this job")


CHART_OF = """
const [points, done] = [arguments[0], arguments[1]];
import('/charts.js').then(({ChartsView}) => {
  const history = {steps: [], memory: [], version: 0};
  const view = new ChartsView({history, only: ['loss']});
  document.body.prepend(view.root);
  let before = null;
  const seen = points.map((count) => {
    history.steps = Array.from({length: count}, (_, i) => ({step: i + 1, loss: 1 + i}));
    ++history.version;
    view.update();
    const {canvas, drawn} = view.charts[0];
    const isNew = drawn !== before;
    before = drawn;
    return {isNew, points: drawn.data.datasets[0].data.length, drawn: drawn.getDatasetMeta(0).data.length, dot: drawn.getDatasetMeta(0).data[0].options.radius > 0,
            isBlank: canvas.toDataURL() === Object.assign(document.createElement('canvas'), {width: canvas.width, height: canvas.height}).toDataURL()};
  });
  view.root.remove();
  done(seen);
}).catch((error) => done(String(error)));
"""


def charts_go_from_a_point_to_a_line_and_back(at):
    """A chart is made anew where one point becomes a line, or a line one point, since Chart.js keeps the options of a drawn one; and only there."""
    page = at.page
    counts = [1, 2, 60, 1, 1, 3]
    with at.replay("healthy", 60) as dashboard:
        page.open(dashboard.url)
        seen = page.driver.execute_async_script(CHART_OF, counts)
        for before, count, chart in zip([None, *counts], counts, seen):
            is_new = before is None or (before == 1) != (count == 1)
            assert chart == {"isNew": is_new, "points": count, "drawn": count, "dot": count == 1, "isBlank": False}, (count, seen)
        page.next_frame()
        errors = page.errors()
        assert errors == [], errors


def another_runs_steps_are_not_mixed_in(at):
    """A job of the same folder goes on with the series, one of another folder begins its own; without metrics.jsonl, by frames alone."""
    page = at.page
    now = staged.START

    def frames_of(job, output, steps):
        nonlocal now
        for step in steps:
            now += 1
            actors, edges = staged.pipeline_rank(0, now, 2, step, with_ledger=True)
            frame = staged.frame(now, [staged.report(0, now, actors, edges, training={**staged.training(step, now), "loss": float(step)})])
            yield {**frame, "job": {**frame["job"], "job": job, "output": output}}

    path = at.path("runs.jsonl")

    def write(*lives):
        with open(path, "w", encoding="utf-8") as file:
            for line in ({"schema": 1, "format": "troupe frames"}, *(frame for life in lives for frame in life)):
                file.write(json.dumps(line) + "\n")

    def shown():
        page.expect("#status", "at its end")
        steps = json.loads(page.js("const asked = new XMLHttpRequest(); asked.open('GET', '/v1/history', false); asked.send(); return asked.responseText"))["steps"]
        drawn = "return document.querySelector('#view-overview .chart canvas').getAttribute('aria-label')"
        expected = f" at {steps[-1]['step']}, first .* at {steps[0]['step']}, {len(steps)} points$"
        wait_for(f"a chart that says {expected!r}", lambda: re.search(expected, page.js(drawn)), 10)
        return [point["step"] for point in steps]

    write(frames_of("aaaa", "/runs/one", range(1, 9)), frames_of("bbbb", "/runs/one", range(6, 12)))
    with Dashboard(["--replay", path, "--speed", "4"]) as dashboard:
        page.open(dashboard.url)
        assert shown() == list(range(1, 12))
    write(frames_of("aaaa", "/runs/one", range(1, 9)), frames_of("bbbb", "/runs/two", range(20, 24)))
    with Dashboard(["--replay", path, "--speed", "4"]) as dashboard:
        page.open(dashboard.url)
        assert shown() == list(range(20, 24))


def is_usable_by_keyboard(at):
    """Skip link, tabs, a node's details, Escape, filters and sorting: no pointer."""
    page = at.page
    with at.replay("stuck") as dashboard:
        page.open(dashboard.url)
        page.key("TAB")
        assert page.focused() == "Skip to the views"
        page.picture("keyboard-skip")
        page.key("ENTER")
        assert page.js("return location.hash") == "#main"
        page.key("TAB")
        wait_for("a place in the view", lambda: page.js("return document.getElementById('main').contains(document.activeElement)"))
        node = "return document.activeElement.dataset.node"
        for _ in range(10):
            if page.js(node):
                break
            page.key("TAB")
        chosen = page.js(node)
        assert chosen, page.focused()
        outline = page.js("return getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement).outlineWidth")
        assert outline == "solid3px", outline
        page.key("ENTER")
        assert page.js("return !document.getElementById('details').hidden")
        assert page.focused() == "details-close"
        page.next_frame()
        assert page.focused() == "details-close"  # a frame takes nobody's focus
        page.picture("keyboard-details")
        page.key("ESCAPE")
        assert page.js("return document.getElementById('details').hidden")
        assert page.js(node) == chosen
        page.js("document.getElementById('tab-overview').focus()")
        page.key("ARROW_RIGHT")
        assert page.focused() == "tab-mailboxes"
        page.js("document.getElementById('mail-filter').focus()")
        page.key("led")
        assert page.texts(".mail tbody td:first-child") == ["0/ledger"]
        page.js("document.querySelector('.mail .sort').focus()")
        page.key("ENTER")
        assert page.js("return document.querySelector('.mail th').getAttribute('aria-sort')") == "ascending"


def the_rank_map_is_walked_by_arrows(at):
    page = at.page
    with at.replay("many", 4) as dashboard:
        page.open(dashboard.url)
        page.js("document.querySelector('.cell').focus()")
        page.key("ARROW_RIGHT", "ARROW_RIGHT", "ENTER")
        page.expect(".group-title", "rank 2 ")
        page.key("END")
        assert page.focused().startswith("rank 511"), page.focused()


def fits_a_phone(at):
    """At 375 px no view is wider than the window, with long names, many ranks, and the details open."""
    page = at.page
    for scene, seconds in (("healthy", 60), ("names", 600), ("cycle", 600), ("many", 4)):
        with at.replay(scene, seconds) as dashboard:
            page.open(dashboard.url, 375, 800)
            for view in page.js("return [...document.querySelectorAll('[role=tab]')].map((tab) => tab.id.slice(4))"):
                page.shown(view)
                page.settle()
                wide = page.js("return document.documentElement.scrollWidth")
                assert wide <= 375, f"{scene} {view}: {wide} px"
                page.picture(f"phone-{scene}-{view}")
            page.shown("overview")
            page.js("document.querySelector('.node:not(.family)').click()")
            page.settle()
            assert page.js("return document.documentElement.scrollWidth") <= 375, scene
            page.picture(f"phone-{scene}-details")


def names_are_only_text(at):
    """A name that is markup makes no element and runs nothing; long ones break nothing."""
    page = at.page
    with at.replay("names") as dashboard:
        page.open(dashboard.url)
        for view in ("overview", "mailboxes", "waits", "ranks"):
            page.shown(view)
            page.settle()
            assert page.js("return document.querySelectorAll('main img, #findings img, main script').length") == 0
            assert page.js("return document.documentElement.scrollWidth <= innerWidth"), view
            page.picture(f"names-{view}")
        assert staged.HOSTILE in page.text("#view-mailboxes")
        page.js("[...document.querySelectorAll('.mail .link')].find((each) => each.textContent.includes('<img')).click()")
        page.expect("#details-title", staged.HOSTILE)
        page.picture("names-details")
        assert page.js("return document.title") != "owned"
        assert page.errors() == []


def stays_quick_with_512_ranks(at):
    page = at.page
    with at.replay("many", 12) as dashboard:
        page.open(dashboard.url)
        assert page.js("return document.querySelectorAll('.cell').length") == 512
        page.expect("#findings", "Rank 300 gave no answer: connection reset by peer")
        page.expect("#findings", "replica of rank 17 has made no progress for 44 s")
        page.expect("#findings", "Rank 40 computes 2.0 times as long as its equals: 1.9 s of a step, they 950 ms")
        assert page.text(".cell[aria-selected=true]") == "S"  # what stands still is shown first
        page.picture("many-overview")
        times = []
        for view in ("overview", "mailboxes", "ranks", "overview"):
            page.shown(view)
            page.next_frame()
            times.append(float(page.js("return document.body.dataset.frameMs")))
            page.picture(f"many-{view}")
        assert max(times) < FRAME_MS_MOST, times
        assert page.js("return document.querySelectorAll('*').length") < 8000  # not an element for each of 6645 actors


CONTRAST = """
const visible = (node) => node.checkVisibility && node.checkVisibility({visibilityProperty: true, opacityProperty: true});
const parse = (text) => { const parts = text.match(/[\\d.]+/g).map(Number); return {rgb: parts.slice(0, 3), alpha: parts[3] ?? 1}; };
const light = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
const behind = (node) => { for (let at = node; at; at = at.parentElement) { const colour = parse(getComputedStyle(at).backgroundColor); if (colour.alpha > 0.99) return colour.rgb; } return [255, 255, 255]; };
const bad = [];
let looked = 0;
for (const node of document.querySelectorAll('body *')) {
  if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()) || !visible(node) || node.closest('svg, .skip, noscript, script')) continue;
  const style = getComputedStyle(node);
  const [a, b] = [light(parse(style.color).rgb), light(behind(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  ++looked;
  if (ratio < 4.5) bad.push(`${node.tagName}.${node.className} ${ratio.toFixed(2)} ${style.color}: ${node.textContent.slice(0, 30)}`);
}
return {looked, bad};
"""


def has_contrast_in_light_and_dark(at):
    """Every visible text at least 4.5 to 1 (WCAG 2.1 AA) in both themes, whether from the system or from the switch."""
    page = at.page
    for scene in ("healthy", "stuck", "failing"):
        with at.replay(scene, 60, speed=2) as dashboard:
            switches = (("light", "dark"), ("dark", "light")) if scene == "healthy" else ()
            for system, switched in (("light", None), ("dark", None), *switches):
                page.open(dashboard.url, theme=system)
                page.js("localStorage.setItem('theme', arguments[0]); location.reload()", switched or "auto")
                page.frames(3 if scene == "failing" else 1)
                back = page.js("return getComputedStyle(document.body).backgroundColor")
                assert (back == "rgb(20, 23, 26)") == ((switched or system) == "dark"), (system, switched, back)
                for view in ("overview", "mailboxes", "waits", "goodput", "ranks"):
                    page.shown(view)
                    page.js("document.querySelectorAll('details').forEach((each) => each.open = true)")
                    page.settle()
                    seen = page.js(CONTRAST)
                    assert seen["looked"] > 20, seen
                    assert not seen["bad"], (scene, view, system, switched, seen["bad"])
                    if system == "dark" and not switched:
                        page.picture(f"dark-{scene}-{view}")
    page.js("localStorage.clear()")


def the_theme_switch_is_kept(at):
    page = at.page
    with at.replay("cycle") as dashboard:
        page.open(dashboard.url)
        for name in ("light", "dark"):
            page.js("document.getElementById('theme').click()")
            assert page.text("#theme") == f"Theme: {name}"
        page.js("location.reload()")
        page.frames(1)
        assert page.js("return document.documentElement.dataset.theme") == "dark"
        page.js("localStorage.clear()")


def comes_back_when_the_dashboard_does(at):
    """The page keeps the last picture while nobody answers, and goes on by itself."""
    page = at.page
    path = at.path("healthy.jsonl")
    staged.write("healthy", path, 600)
    with Dashboard(["--replay", path]) as dashboard:
        page.open(dashboard.url)
        port = dashboard.url.rstrip("/").rsplit(":", 1)[1]
        dashboard.end()
        page.expect("#status", "does not answer: trying again")
        page.expect("#status", "the picture is of")
        assert page.texts(".node-name")  # the last picture
        page.picture("lost")
        frames = int(page.js("return document.body.dataset.frames"))
    with Process(["dashboard", "--listen", f"127.0.0.1:{port}", "--replay", path]):
        page.frames(frames + 1)
        assert page.text("#status") == "recorded"


# --- a real job

class Training:
    """A real, small `troupe train` of two replicas, in a runtime folder of its own."""

    def __init__(self, at):
        self.at = at
        os.makedirs(at.path("run-time"), mode=0o700, exist_ok=True)
        self.env = {"TROUPE_RUNTIME_DIR": at.path("run-time")}
        if not os.path.exists(at.path("corpus_train.bin")):
            with open(at.path("text.txt"), "w", encoding="utf-8") as file:
                for i in range(4000):
                    file.write(f"line {i} of a text that is learnt by heart\n" + ("---\n" if i % 50 == 0 else ""))
            with Process(["data", "prepare", "--output", at.path("corpus"), "--validation", "0.1", "--split-on", "---", at.path("text.txt")]) as prepared:
                assert prepared.child.wait(60) == 0, prepared.said()
            with open(at.path("job.toml"), "w", encoding="utf-8") as file:
                file.write(f'''[job]
output = "{at.path("run")}"
heartbeat_timeout_s = 20
[model]
family = "llama"
vocab_size = 257
pad_vocab_multiple = 128
layers = 4
hidden = 64
heads = 4
kv_heads = 2
intermediate = 128
max_seq_len = 64
[data]
train = "{at.path("corpus_train")}"
[training]
steps = 1000000
seq_len = 64
micro_batch = 2
global_batch = 8
[lr_scheduler]
total_steps = 1000000
''')

    def start(self, *more, ranks=2):
        job = Process(["launch", "--nproc", str(ranks), "--", os.path.abspath(os.environ.get("TROUPE_BINARY", "build/release/troupe")), "train", self.at.path("job.toml"),
                       f"--parallelism.data_parallel={ranks}", "--parallelism.pipeline=2", *more], self.env)
        job.line("/1000000  loss")
        return job

    def dashboard(self, *words):
        return Dashboard(list(words), self.env)

    def asked(self, target):
        """What rank 0 of the job answers by itself."""
        sockets = [name for name in os.listdir(self.env["TROUPE_RUNTIME_DIR"]) if name.endswith(".0.sock")]
        assert len(sockets) == 1, sockets
        asking = http.client.HTTPConnection("localhost")
        asking.sock = socket.socket(socket.AF_UNIX)
        asking.sock.settimeout(PATIENCE_S)
        asking.sock.connect(os.path.join(self.env["TROUPE_RUNTIME_DIR"], sockets[0]))
        asking.request("GET", target)
        return asking.getresponse().read().decode()


def shows_a_real_training(at):
    """Live numbers of a real job; its end with how far it came; and on with the same folder's next job, without a reload."""
    page, training = at.page, Training(at)
    with training.start() as job:
        with training.dashboard("--record", at.path("record.jsonl")) as dashboard:
            page.open(dashboard.url)
            page.expect("#status", "live")
            wait_for("the stages", lambda: {"stage-0", "stage-1"} <= set(page.texts(".node-name")))
            wait_for("an edge's credits", lambda: page.texts(".edge-label"))
            page.shown("training")
            wait_for("the loss", lambda: "points" in (page.js("return document.querySelector('#view-training canvas').getAttribute('aria-label')") or ""))
            page.next_frame()
            page.picture("real-training")
            for view in ("overview", "mailboxes", "timeline", "waits", "goodput", "ranks"):
                page.shown(view)
                page.next_frame()
                page.picture(f"real-{view}")
            page.shown("overview")
            page.js("[...document.querySelectorAll('.node')].find((each) => each.textContent.includes('stage-0')).click()")
            page.expect("#details", "In the mailbox")
            page.picture("real-details")
            page.key("ESCAPE")
            assert job.end(signal.SIGTERM) == 0, job.said()
            page.expect("#status", "the job has ended: after step")
            assert page.texts(".node-name")  # the last picture
            page.picture("real-ended")
            ended_at = page.js("return Number(/after step (\\d+)/.exec(document.getElementById('status').textContent)[1])")
            drawn = "return document.querySelector('#view-overview .chart canvas').getAttribute('aria-label')"
            wait_for("the last step, which came after the last frame", lambda: f" at {ended_at}, " in page.js(drawn))
            with training.start() as again:
                page.expect("#status", "live")
                assert page.js("return performance.getEntriesByType('navigation').length") == 1
                steps = json.loads(page.js("const asked = new XMLHttpRequest(); asked.open('GET', '/v1/history', false); asked.send(); return asked.responseText"))["steps"]
                assert [point["step"] for point in steps] == sorted({point["step"] for point in steps})
                assert steps[0]["step"] == 1 and steps[-1]["step"] > ended_at, (steps[0], steps[-1], ended_at)
                again.end(signal.SIGTERM)
            assert page.errors() == []
    with Dashboard(["--replay", at.path("record.jsonl"), "--speed", "20"]) as dashboard:
        page.open(dashboard.url)
        wait_for("the recorded stages", lambda: {"stage-0", "stage-1"} <= set(page.texts(".node-name")))
        page.expect("#status", "at its end")


# What the page is answered about its timeline, and what it then draws of it.
WATCH = """
window.watched = {trace: null, bars: [], texts: []};
const json = Response.prototype.json;
Response.prototype.json = async function () {
  const answer = await json.call(this);
  if (new URL(this.url).pathname === '/v1/trace') watched.trace = answer;
  return answer;
};
for (const [name, kept] of [['fillRect', 'bars'], ['fillText', 'texts']]) {
  const draw = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (...words) {
    if (this.canvas.closest('#view-timeline')) watched[kept].push(words);
    return draw.apply(this, words);
  };
}
"""
DRAWN = """
watched.bars = [], watched.texts = [];
dispatchEvent(new Event('theme'));
return {...watched, width: document.querySelector('#view-timeline canvas').clientWidth};
"""


def operations_of(trace):
    """Stream -> [(begin, end, name)], by the clock of the ranks' hosts."""
    streams = {}
    for rank in trace["ranks"]:
        shift = rank["at_unix_s"] - rank["probe_s"]
        for stream in rank["streams"]:
            streams[f"{rank['rank']}/{stream['name']}"] = sorted((each["begin_s"] + shift, each["end_s"] + shift, each["name"]) for each in stream["operations"] + stream["running"])
    return streams


SLOWER = ["--model.hidden=256", "--model.intermediate=512", "--training.micro_batch=16", "--training.global_batch=64"]  # its rings then hold many seconds


def draws_the_spans_that_the_trace_has(at):
    """Of a live job: a bar for each operation of the last second, where its time is, and no other; they are those that the job itself tells of."""
    page, training = at.page, Training(at)
    with training.start(*SLOWER), training.dashboard() as dashboard:
        page.open(dashboard.url)
        page.expect("#status", "live")
        page.js(WATCH)
        page.js("const last = document.getElementById('time-last'); last.value = '1'; last.dispatchEvent(new Event('change'))")
        page.shown("timeline")
        wait_for("what is drawn of a trace", lambda: page.js("return watched.trace && watched.bars.length"))
        drawn = page.js(DRAWN)
        told = json.loads(training.asked("/v1/trace?last_s=60"))
    streams = operations_of(drawn["trace"])
    assert {name.split("/")[0] for name in streams} == {"0", "1"}, streams.keys()
    end = max(each[1] for operations in streams.values() for each in operations)
    begin = end - 1
    row_of = {re.sub(r" \S+ %$", "", text): y for text, x, y in drawn["texts"] if x == 0}  # beside which height a stream's name is
    assert sorted(row_of) == sorted(streams), (row_of, streams.keys())
    pairs = []
    for stream, operations in streams.items():
        bars = sorted(bar for bar in drawn["bars"] if bar[1] < row_of[stream] < bar[1] + bar[3])
        seen = [each for each in operations if each[1] > begin]
        assert len(bars) == len(seen), (stream, len(bars), len(seen))
        pairs += [(bar, max(begin, since), until) for bar, (since, until, _) in zip(bars, seen)]
    assert len(pairs) == len(drawn["bars"]) > 20, (len(pairs), len(drawn["bars"]))
    first, last = (choose(pairs, key=lambda pair: pair[1]) for choose in (min, max))
    scale = (last[0][0] - first[0][0]) / (last[1] - first[1])
    assert abs(last[0][0] + (end - last[1]) * scale - drawn["width"]) < 1, (scale, drawn["width"])  # the right edge is the last one's end
    for bar, since, until in pairs:
        assert abs(bar[0] - drawn["width"] + (end - since) * scale) < 1, (bar, since)
        assert abs(bar[2] - max(1, (until - since) * scale)) < 1, (bar, since, until)
    known = {(rank["rank"], stream["name"], each["name"], each["begin_s"]) for rank in told["ranks"] for stream in rank["streams"] for each in stream["operations"]}
    ended = {(rank["rank"], stream["name"], each["name"], each["begin_s"]) for rank in drawn["trace"]["ranks"] for stream in rank["streams"] for each in stream["operations"]
             if each["end_s"] + rank["at_unix_s"] - rank["probe_s"] > begin}
    assert len(ended) > 20 and not ended - known, list(ended - known)[:5]


def tells_that_a_job_was_killed(at):
    page, training = at.page, Training(at)
    job = Process(["train", at.path("job.toml")], training.env)
    with job:
        job.line("step 3/")
        with training.dashboard() as dashboard:
            page.open(dashboard.url)
            page.expect("#status", "live")
            job.end(signal.SIGKILL)
            page.expect("#status", f"process {job.child.pid} (rank 0) was killed or has crashed")
            page.picture("real-killed")


def train_serves_its_own_page(at):
    """train --dashboard: the page hears of the end, too."""
    page, training = at.page, Training(at)
    with Process(["train", at.path("job.toml"), "--dashboard=0"], training.env) as job:
        url = job.line("dashboard: http").split()[-1]
        page.open(url)
        page.expect("#status", "live")
        wait_for("the stage", lambda: "stage-0" in page.texts(".node-name"))
        assert job.end(signal.SIGTERM) == 0, job.said()
        wait_for("the end", lambda: "after step" in page.text("#status") or "does not answer" in page.text("#status"))
        assert page.texts(".node-name")


TESTS = [loads_without_errors_and_without_others, goes_on_by_itself, says_when_the_record_ends, shows_the_failing_rank, shows_the_stuck_actor, shows_the_circle,
         goodput_adds_up_to_the_wall_time, shows_the_timeline, charts_go_from_a_point_to_a_line_and_back, another_runs_steps_are_not_mixed_in,
         is_usable_by_keyboard, the_rank_map_is_walked_by_arrows, fits_a_phone, names_are_only_text, stays_quick_with_512_ranks,
         has_contrast_in_light_and_dark, the_theme_switch_is_kept, comes_back_when_the_dashboard_does, shows_a_real_training,
         draws_the_spans_that_the_trace_has, tells_that_a_job_was_killed, train_serves_its_own_page]


def name_of(test):
    return "Dashboard." + "".join(word.capitalize() for word in test.__name__.split("_"))


def run(test, driver):
    """Prints how it went; false if it failed."""
    name, began = name_of(test), time.monotonic()
    print(f"[ RUN      ] {name}", flush=True)
    at = Dashboards(Page(driver))
    try:
        test(at)
        how = "       OK "
    except BaseException as error:  # an interrupt, too, must leave no process
        print(f"Failure in {name}:")
        traceback.print_exc(file=sys.stdout)
        at.page.picture(f"FAILED-{name}")
        how = "  FAILED  "
        if isinstance(error, KeyboardInterrupt):
            raise
    finally:
        at.clean()
    print(f"[{how}] {name} ({int(1000 * (time.monotonic() - began))} ms)", flush=True)
    return how != "  FAILED  "


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    driver, why = start_chromium()
    if driver is None:
        for test in TESTS:
            print(f"skipped because {why}\n[  SKIPPED ] {name_of(test)} (0 ms)")
        return 0
    try:
        results = [run(test, driver) for test in TESTS if fnmatch.fnmatch(name_of(test).lower(), f"*{wanted.lower()}*")]
    finally:
        driver.quit()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
