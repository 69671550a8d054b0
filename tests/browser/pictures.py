#!/usr/bin/env python3
"""The front README's pictures of the dashboard, in light and dark: pictures.py FOLDER [RECORD].

Where there is no file RECORD the quickstart's model is trained first, by two processes that hold two stages each, and recorded until its frames
show STEPS different steps: two minutes or so.
FOLDER gets dashboard.png and dashboard-dark.png, what one sees first, and views.png and views-dark.png, the other views beside each other. With
TROUPE_PICTURES=OTHER_FOLDER that gets every view, whole, as it is on a desk and on a phone: look at them after a change.
"""
import base64
import os
import re
import sys
import tempfile
import time

from browser import PATIENCE_S, TROUPE, Dashboard, Page, Process, start_chromium, wait_for

STEPS = 64
RECORD_PATIENCE_S = 480
REPLAY_SPEED = 10
BYTES_MOST = 300_000
DESK, PHONE, TILE = (1280, 760), (375, 812), (780, 400)
BESIDE = {"mailboxes": "Mailboxes, with their last minute", "training": "Training", "timeline": "Timeline of the streams", "waits": "Who waits for whom",
          "goodput": "Where the wall time went", "ranks": "Ranks"}


def record(path):
    """A real training, seen by a dashboard that records it."""
    with tempfile.TemporaryDirectory(prefix="troupe-pictures-") as folder:
        env = {"TROUPE_RUNTIME_DIR": os.path.join(folder, "runtime")}
        os.makedirs(env["TROUPE_RUNTIME_DIR"], mode=0o700)
        corpus = os.path.join(folder, "corpus")
        texts = [line.strip() for line in os.popen("dpkg -L perl-doc") if line.endswith(".pod\n")]
        with Process(["data", "prepare", "--output", corpus, "--validation", "0.1", *texts]) as prepared:
            assert prepared.child.wait(PATIENCE_S) == 0, prepared.said()
        words = ["launch", "--nproc", "2", "--", os.path.abspath(TROUPE), "train", "tools/configs/quickstart.toml", f"--job.output={folder}/quickstart",
                 f"--data.train={corpus}_train", f"--data.validation={corpus}_validation", "--training.steps=400", "--parallelism.pipeline=4",
                 "--job.heartbeat_timeout_s=20"]
        with Process(words, env) as job:
            job.line("step 1/")
            with Dashboard(["--record", path], env):
                wait_for(f"{STEPS} steps", lambda: len(steps_in(path)) >= STEPS, RECORD_PATIENCE_S)
            job.end()


def steps_in(path):
    """Those that its frames show, which come once a second."""
    with open(path, encoding="utf-8") as file:
        return set(re.findall(r'"training":\{"step":(\d+),', file.read()))


def shot(page, left, top, width, height):
    """PNG of a part of the page, which need not be in sight."""
    page.settle()
    clip = {"x": left, "y": top, "width": width, "height": height, "scale": 1}
    return base64.b64decode(page.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})["data"])


def save(folder, name, theme, picture, bytes_most=BYTES_MOST):
    path = os.path.join(folder, f"{name}{'' if theme == 'light' else '-dark'}.png")
    assert len(picture) < bytes_most, f"{path} would have {len(picture)} bytes"
    with open(path, "wb") as file:
        file.write(picture)


def show(page, view):
    page.shown(view)
    if view == "timeline":
        wait_for("the operations", lambda: page.texts("#view-timeline .keys li"))


class Played:
    """The record, played to its end before an open page, which so knows the mailboxes' past."""

    def __init__(self, page, record_path, theme, size):
        self.dashboard = Dashboard(["--replay", record_path, "--speed", str(REPLAY_SPEED)])
        page.open(self.dashboard.url, *size, theme)
        wait_for("the last frame", lambda: "at its end" in page.text("#status"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.dashboard.end()


def first_sight(page, record_path, folder, theme):
    with Played(page, record_path, theme, DESK):
        save(folder, "dashboard", theme, shot(page, 0, 0, *DESK))


def beside_each_other(page, record_path, folder, theme):
    """Of each view what is below the tabs, together on a page of their own."""
    with Played(page, record_path, theme, TILE):
        tiles = []
        for view, title in BESIDE.items():
            show(page, view)
            at = page.js("const box = document.getElementById('view-' + arguments[0]).getBoundingClientRect(); return [box.left + scrollX, box.top + scrollY, box.width]", view)
            tiles.append((title, base64.b64encode(shot(page, *at, TILE[1])).decode()))
        colours = page.js("const style = getComputedStyle(document.body); return [style.backgroundColor, style.color, style.fontFamily]")
    figures = "".join(f"<figure><figcaption>{title}</figcaption><img src='data:image/png;base64,{data}'></figure>" for title, data in tiles)
    page.driver.get("data:text/html;base64," + base64.b64encode(
        f"<meta charset=utf-8><style>body{{display:grid;grid-template-columns:auto auto;gap:16px 24px;padding:16px;margin:0;width:max-content;background:{colours[0]};color:{colours[1]};font-family:{colours[2]}}}"
        f"figure{{margin:0}}figcaption{{font:600 15px {colours[2]};padding-bottom:6px}}img{{display:block}}</style>{figures}".encode()).decode())
    save(folder, "views", theme, shot(page, 0, 0, *page.js("return [document.body.offsetWidth, document.body.offsetHeight]")))


def whole_views(page, record_path, folder, theme):
    for device, size in (("desk", DESK), ("phone", PHONE)):
        with Played(page, record_path, theme, size):
            for view in ("overview", *BESIDE):
                show(page, view)
                height = page.js("return document.documentElement.scrollHeight")
                save(folder, f"{device}-{view}", theme, shot(page, 0, 0, size[0], height), float("inf"))


def main():
    folder = sys.argv[1]
    record_path = sys.argv[2] if len(sys.argv) > 2 else os.path.join(tempfile.mkdtemp(prefix="troupe-pictures-"), "record.jsonl")
    if not os.path.exists(record_path):
        record(record_path)
    print(f"{record_path}: {len(steps_in(record_path))} steps", flush=True)
    driver, why = start_chromium()
    if driver is None:
        sys.exit(why)
    try:
        for theme in ("light", "dark"):
            first_sight(Page(driver), record_path, folder, theme)
            beside_each_other(Page(driver), record_path, folder, theme)
            if os.environ.get("TROUPE_PICTURES"):
                whole_views(Page(driver), record_path, os.environ["TROUPE_PICTURES"], theme)
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
