"""`berth debug` as its user sees it: Chromium's own DevTools, at the URL that it prints, stop and step a script in a sandbox.

usage: test_devtools.py BUILD_DIR root|user RUNTIME [CASE...]
"""

import json
import os
import select
import signal
import subprocess
import sys
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("sandbox", "process", "preview", "lifecycle")]

# pylint: disable=wrong-import-position
from debug_api import SCRIPT, Debug, Debugger, put  # noqa: E402
from ground import TIMEOUT, check, equal, main, pids, until  # noqa: E402

BROWSER = "/usr/bin/chromium"
# What there is to read, which is in one shadow tree within the other.
TEXT = """(function text(node) {
  let all = node.shadowRoot ? text(node.shadowRoot) : "";
  for (const child of node.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) all += child.data + " ";
    else if (child.nodeName !== "STYLE" && child.nodeName !== "SCRIPT") all += text(child);
  }
  return all;
})(document.body)"""
KEYS = {"F8": 119, "F10": 121}


class Chromium:
    """Without a window. All that it writes is in the test's own directory."""

    def __init__(self, g):
        self.g, self.home = g, g.path("browser")
        os.mkdir(self.home)
        own = {name: self.home for name in ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
        words = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={self.home}/data", "--no-first-run", "--disable-gpu"]
        if os.getuid() == 0:
            words.append("--no-sandbox")
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [BROWSER, *words, "about:blank"], env={**os.environ, **own}, stdin=subprocess.DEVNULL, stdout=g.log, stderr=g.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Told to end as by a user; what does not is killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
            until(lambda: not self.ours(), "the browser's end", 60)
        finally:
            self.process.kill()
            self.process.wait()
            self.g.kill(self.ours())

    def ours(self):
        return [pid for pid in pids() if pid != self.process.pid and self.is_ours(pid)]

    def is_ours(self, pid):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return f"TMPDIR={self.home}".encode() in file.read().split(b"\0")
        except OSError:
            return False

    def port(self):
        try:
            with open(f"{self.home}/data/DevToolsActivePort", encoding="ascii") as file:
                return file.read().split("\n")[0]
        except OSError:
            check(self.process.poll() is None, "the browser has ended")
            return None

    def ask(self, path, method="PUT"):
        until(self.port, "the browser's port", 2 * TIMEOUT)
        request = urllib.request.Request(f"http://127.0.0.1:{self.port()}/json/{path}", method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return answer.read()

    def open(self, url):
        return json.loads(self.ask("new?" + urllib.parse.quote(url, safe="")))


class Page(Debugger):
    """One of the browser's, driven by its keyboard."""

    def text(self):
        return self.ask("Runtime.evaluate", expression=TEXT, returnByValue=True)["result"]["value"]

    def await_text(self, *texts):
        until(lambda: all(text in self.text() for text in texts), f"{texts} in DevTools", 2 * TIMEOUT)

    def press(self, key):
        for kind in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key])


def has_more(stream):
    return bool(select.select([stream], [], [], 0.2)[0])


def line_of(stream, what):
    until(lambda: has_more(stream), what, 2 * TIMEOUT)
    return stream.readline()


def press_until(page, key, stream):
    """What is shown lags behind: a key that comes while the script is on its way to the next line is none."""
    until(lambda: has_more(stream) or ("Debugger paused" in page.text() and page.press(key)), f"what follows {key}", 2 * TIMEOUT)


def test_devtools(g):
    """The URL as it is printed: paused at the first line, a step, a variable's value, and on to the script's end."""
    put(g, "a", "/workspace/stepped.js", SCRIPT)
    with Debug(g, "a", "stepped.js", "one") as debug, Chromium(g) as browser:
        devtools, _ = debug.told()
        opened = browser.open(devtools)
        equal(line_of(debug.process.stderr, "a debugger"), b"Debugger attached.\n")
        with Page(opened["webSocketDebuggerUrl"]) as page:
            page.await_text("Debugger paused", "stepped.js")
            page.press("F10")
            page.await_text("Debugger paused", "secret", "42")
            press_until(page, "F10", debug.process.stdout)
            equal(debug.process.stdout.readline(), b"begin one\n", "after two steps")
            press_until(page, "F8", debug.process.stderr)
            equal(debug.process.stderr.readline(), b"bytes \x1b and more\n", "after it was let go")
        browser.ask(f"close/{opened['id']}")
        code, out, err = debug.end()
    equal((code, out), (3, ""), err)


if __name__ == "__main__":
    main([test_devtools])
