"""A dev environment in a sandbox as its user sees it: Vite inside, Chromium outside.

usage: test_preview.py BUILD_DIR root|user RUNTIME [CASE...]
"""

import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process", "preview", "lifecycle")]

# pylint: disable=wrong-import-position
from event_api import Follower  # noqa: E402
from ground import TIMEOUT, Failed, check, equal, main, pids, until  # noqa: E402
from npm import packages, packages_or_skip  # noqa: E402
from preview_api import expose, start_preview  # noqa: E402
from process_api import show, start, wait  # noqa: E402

BROWSER = "/usr/bin/chromium"
PORT = 5173
VITE = ["node", "node_modules/vite/bin/vite.js", "--host", "127.0.0.1", "--port", str(PORT), "--strictPort"]
FIRST = "Hello from the sandbox"


def artefact(build, mode, moment):
    os.makedirs(os.path.join(build, "artefacts"), exist_ok=True)
    return os.path.join(build, "artefacts", f"e2e_preview-{mode}-{moment}.png")


class Browser:
    """Chromium with one page. All that it writes is in the test's own directory."""

    def __init__(self, g, folder):
        self.g, self.home = g, g.path("browser")
        os.mkdir(self.home)
        own = {"HOME": self.home, "TMPDIR": self.home, "XDG_CONFIG_HOME": self.home, "XDG_CACHE_HOME": self.home}
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["node", "browser.mjs", BROWSER], cwd=folder, env={**os.environ, **own}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=g.log)
        try:
            print(f"# Chromium {self.answer()}", flush=True)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind:
                self.keep("failed")
                print(f"# {json.dumps(self.seen())[:3000]}", flush=True)
        except (Failed, OSError) as error:
            print(f"# the browser does not tell what it saw: {error}", flush=True)
        finally:
            self.close()

    def ours(self):
        return [pid for pid in pids() if pid != self.process.pid and self.is_ours(pid)]

    def is_ours(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"TMPDIR={self.home}".encode() in file.read().split(b"\0")
        except OSError:
            return False

    def close(self):
        """It goes when its input ends; what does not is killed."""
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(60)
            until(lambda: not self.ours(), "the browser's end", 60)
        finally:
            self.process.kill()
            self.process.wait()
            self.g.kill(self.ours())

    def answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], 2 * TIMEOUT)
        line = self.process.stdout.readline() if ready else b""
        check(line, "the browser says nothing")
        reply = json.loads(line)
        check("failed" not in reply, reply)
        return reply["done"]

    def do(self, deed, **args):
        self.process.stdin.write(json.dumps({"deed": deed, **args}).encode() + b"\n")
        self.process.stdin.flush()
        return self.answer()

    def await_text(self, name, text):
        self.do("wait", selector=f'#{name}:text-is("{text}")')

    def mark(self):
        """What only a navigation takes away."""
        self.do("run", script="window.mark = document.body.className = 'marked'")

    def seen(self):
        return self.do("seen")

    def hmr(self):
        """The WebSocket of the page that is shown now."""
        return self.seen()["sockets"][-1]

    def keep(self, moment):
        self.do("screenshot", path=artefact(self.g.build, self.g.mode, moment))


def make_project(g, folder):
    """What `npm create` and `npm install` would have made here."""
    project = g.path("project")
    shutil.copytree(os.path.join(HERE, "project"), project)
    shutil.copytree(os.path.join(folder, "node_modules"), os.path.join(project, "node_modules"), symlinks=True,
                    ignore=shutil.ignore_patterns("playwright-core", "playwright-core.*"))
    return project


def edited(project, old, new):
    """main.js, with another greeting."""
    with open(os.path.join(project, "main.js"), "r+", encoding="utf-8") as file:
        text = file.read()
        check(old in text, text)
        text = text.replace(old, new)
        file.seek(0)
        file.truncate()
        file.write(text)
    return text.encode()


def edit(g, project, old, new):
    reply = g.request("PUT", "/v1/sandbox/dev/file/workspace/main.js", edited(project, old, new))
    check(reply.status in (200, 201, 204), reply)


def set_up(g, project):
    """By the API. The exposed port, with a server behind it."""
    equal(g.request("PUT", "/v1/sandbox/dev", {"sleep_after": "10m"}).status, 200, "create")
    with tarfile.open(g.path("project.tar"), "w") as tar:
        tar.add(project, ".")
    with open(g.path("project.tar"), "rb") as file:
        reply = g.request("POST", "/v1/sandbox/dev/hydrate", file.read())
    check(reply.status in (200, 204), reply)
    start(g, "dev", VITE, id="vite", autostart=True)
    wait(g, "dev", "vite", "port", port=PORT)
    return expose(g, "dev", PORT)


def click(browser, text):
    browser.do("click", selector="#ask")
    browser.await_text("answer", text)


def check_hot(browser, text, updates):
    """The page shows that text by so many hot reloads and no navigation."""
    browser.await_text("greeting", text)
    equal(browser.do("run", script="window.mark"), "marked", "what was in the page's memory")
    seen = browser.seen()
    equal(seen["navigations"], 1, "navigations")
    equal([s["is_open"] for s in seen["sockets"]], [True], "one WebSocket, and it is open")
    equal(len([m for m in seen["sockets"][0]["received"] if '"update"' in m]), updates, seen["sockets"])


def sleep_idle(g, events, mode):
    equal(g.request("PUT", "/v1/sandbox/dev", {"sleep_after": "2s"}).status, 200, "settings")
    slept = events.until("slept")
    equal((slept["mode"], slept["reason"]), (mode, "idle"), slept)


def go_on_frozen(g, browser, events, project):
    """The page was open and silent; it notices nothing but that an answer takes a moment longer."""
    sleep_idle(g, events, "freeze")
    click(browser, "fetched, click 2")
    equal(events.until("woke")["from"], "frozen", "how it woke")
    edit(g, project, "Edited", "Edited again")
    check_hot(browser, "Edited again", 2)
    events.until("slept")
    edit(g, project, "Edited again", "Edited while it slept")
    equal(events.until("woke")["from"], "frozen", "how it woke")
    check_hot(browser, "Edited while it slept", 3)
    click(browser, "fetched, click 3")
    equal(g.sandbox("dev")["generation"], 1, "one life")
    equal(browser.seen()["complaints"], [], "errors in the page")


def go_on_stopped(g, browser, events, project):
    """Its WebSocket is closed properly; Vite's client asks for the server until it is there, and loads the page anew."""
    sleep_idle(g, events, "stop")
    equal(g.request("PUT", "/v1/sandbox/dev", {"sleep_after": "10m"}).status, 200, "settings")
    browser.do("wait", selector='body:not(.marked) #greeting:text-is("Edited")')
    equal(events.until("woke")["from"], "stopped", "how it woke")
    equal(g.sandbox("dev")["generation"], 2, "the next life")
    equal((show(g, "dev", "vite")["state"], show(g, "dev", "vite")["generation"]), ("running", 2), "autostart")
    navigations = browser.seen()["navigations"]
    click(browser, "fetched, click 1")
    edit(g, project, "Edited", "Edited again")
    browser.await_text("greeting", "Edited again")
    click(browser, "fetched, click 2")
    equal(browser.seen()["navigations"], navigations, "navigations")


def test_api(g):
    """By the API: hydrate, start, expose; the page is edited hot, slept under, and woken by a click."""
    folder = packages(g.build, HERE, "browser.mjs")
    start_preview(g)
    project = make_project(g, folder)
    exposed = set_up(g, project)
    with Browser(g, folder) as browser, Follower(g, "dev", type="slept,woke") as events:
        browser.do("open", url=exposed["url"])
        browser.await_text("greeting", FIRST)
        browser.mark()
        click(browser, "fetched, click 1")
        until(lambda: browser.seen()["sockets"], "Vite's WebSocket")
        check(exposed["hostname"] in browser.hmr()["url"], browser.hmr())
        edit(g, project, FIRST, "Edited")
        check_hot(browser, "Edited", 1)
        browser.keep("edited")
        (go_on_frozen if g.has_cgroups else go_on_stopped)(g, browser, events, project)
        browser.keep("woken")


def test_commands(g):
    """By what README.md tells to type."""
    folder = packages(g.build, HERE, "browser.mjs")
    start_preview(g)
    project = make_project(g, folder)

    def berth(*words, **options):
        done = subprocess.run([os.path.join(g.build, "berth"), "--socket", g.socket, *words], check=False, timeout=TIMEOUT,
                              cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
        equal(done.returncode, 0, f"berth {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    equal(berth("create", "dev", "--sleep-after", "30m"), "dev", "create")
    berth("cp", "-r", ".", "dev:/workspace/.")
    equal(berth("exec", "-d", "--autostart", "--name", "vite", "dev", "--", "npx", "vite", "--host", "127.0.0.1"), "vite", "exec")
    berth("wait", "--port", str(PORT), "--timeout", "2m", "dev", "vite")
    url = berth("expose", "dev", str(PORT))
    equal(berth("open", "dev", str(PORT)), url, "open")
    with Browser(g, folder) as browser:
        browser.do("open", url=url)
        browser.await_text("greeting", FIRST)
        browser.mark()
        edited(project, FIRST, "Put")
        berth("put", "dev:main.js", "main.js")
        check_hot(browser, "Put", 1)
        browser.do("open", url="about:blank")  # Vite's client would not leave it asleep
        berth("sleep", "--mode", "stop", "dev")
        browser.do("open", url=url)  # a page says that it wakes up, and gives way to this one
        browser.await_text("greeting", "Put")
        click(browser, "fetched, click 1")
        equal(g.sandbox("dev")["generation"], 2, "the next life")


if __name__ == "__main__":
    packages_or_skip(sys.argv[1], HERE, "browser.mjs")
    for picture in ("edited", "woken", "failed"):  # of the last run
        pathlib.Path(artefact(*sys.argv[1:3], picture)).unlink(missing_ok=True)
    main([test_api, test_commands], start=lambda test: False)
