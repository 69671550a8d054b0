"""A headless Chromium and a dashboard, for tests. Every wait is for a condition, with a deadline."""
import json
import os
import subprocess
import tempfile
import time

PATIENCE_S = 60
TROUPE = os.environ.get("TROUPE_BINARY", "build/release/troupe")


def wait_for(what, condition, patience_s=PATIENCE_S):
    """The first value of condition() that is true."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what}")
        time.sleep(0.05)


class Process:
    """The tool, whose lines can be waited for; ended at the end."""

    def __init__(self, words, env=None):
        self.out = tempfile.TemporaryFile(mode="w+")
        self.child = subprocess.Popen([TROUPE, *words], stdout=self.out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})

    def said(self):
        self.out.seek(0)
        return self.out.read()

    def line(self, begin, patience_s=PATIENCE_S):
        def found():
            assert self.child.poll() is None or begin in self.said(), f"it ended with {self.child.returncode}: {self.said()}"
            return [line for line in self.said().splitlines() if begin in line]
        return wait_for(f"a line with {begin!r}", found, patience_s)[0]

    def end(self, signal=15):
        if self.child.poll() is None:
            self.child.send_signal(signal)
        try:
            return self.child.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.end()
        finally:
            self.out.close()


class Dashboard(Process):
    """`troupe dashboard` at a port of its own."""

    def __init__(self, words, env=None):
        super().__init__(["dashboard", "--listen", "127.0.0.1:0", *words], env)
        try:
            self.url = self.line("dashboard: http").split()[1]
        except BaseException:
            self.child.kill()
            raise


class Page:
    """The page in a browser: what a person sees of it, and what a person does."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, url, width=1280, height=900, theme="light"):
        cdp = self.driver.execute_cdp_cmd
        cdp("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        cdp("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        self.driver.get_log("browser"), self.driver.get_log("performance")  # what came before is another test's
        self.driver.get(url)
        self.frames(1)

    def js(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def frames(self, least):
        wait_for(f"{least} frames", lambda: int(self.js("return document.body.dataset.frames || 0")) >= least)

    def next_frame(self):
        self.frames(int(self.js("return document.body.dataset.frames || 0")) + 1)

    def text(self, css):
        return self.js("const found = document.querySelector(arguments[0]); return found ? found.textContent : ''", css)

    def texts(self, css):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)", css)

    def shown(self, view):
        self.js("document.getElementById('tab-' + arguments[0]).click()", view)

    def expect(self, css, part, patience_s=PATIENCE_S):
        wait_for(f"{part!r} in {css}, which says {self.text(css)!r}", lambda: part in self.text(css), patience_s)

    def key(self, *names):
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys
        for name in names:
            ActionChains(self.driver).send_keys(getattr(Keys, name, name)).perform()

    def focused(self):
        return self.js("const at = document.activeElement; return at.id || at.getAttribute('aria-label') || at.textContent")

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Whatever the page asked anybody for."""
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        return urls

    def picture(self, name):
        folder = os.environ.get("TROUPE_PICTURES", "")
        if folder:
            self.settle()
            self.driver.save_screenshot(os.path.join(folder, f"{name}.png"))

    def settle(self):
        """Two drawn frames: charts and canvases are there."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))")


def start_chromium():
    """A driver, or why there is none."""
    for program in ("chromium", "chromedriver"):
        if subprocess.run(["which", program], capture_output=True).returncode != 0:
            return None, f"{program} is not installed"
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        return None, "python3-selenium is not installed"
    options = webdriver.ChromeOptions()
    options.binary_location = subprocess.run(["which", "chromium"], capture_output=True, text=True).stdout.strip()
    # root has no sandbox; /dev/shm is small in containers.
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-background-networking", "--no-first-run"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(subprocess.run(["which", "chromedriver"], capture_output=True, text=True).stdout.strip()), options=options)
    driver.set_script_timeout(PATIENCE_S)
    return driver, ""
