"""Chromium without a window, for tests of pages: driven over a pipe (DevTools protocol), one for all of them."""

import json
import os
import shutil
import subprocess
import tempfile
import time

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class Browser:
    """Chromium without a window. Commands and answers are JSON, each ended by a zero byte, on its descriptors 3 and 4."""

    def __init__(self, program, folder):
        inward, self._write = os.pipe()
        self._read, outward = os.pipe()
        flags = (
            "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
        )
        command = f'exec "$0" {flags} --user-data-dir="$1" about:blank 3<&{inward} 4>&{outward}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, program, str(folder)],
            pass_fds=(inward, outward),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(inward)
        os.close(outward)
        self._number, self._buffer, self.events = 0, b"", []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = None
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if getattr(self, "_session", None):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _message(self):
        while b"\0" not in self._buffer:
            part = os.read(self._read, 1 << 20)
            assert part, "the browser ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, address):
        self.events.clear()
        self.run("globalThis.leaving = true")  # the page that is left must not be taken for its own reload
        self.call("Page.navigate", url=address)
        self.wait("!globalThis.leaving && document.readyState === 'complete' && !!globalThis.discreet")

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script, seconds=120):
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"waited in vain for {script}"
            time.sleep(0.02)

    def visible(self, name):
        return self.run(f"document.getElementById('{name}').checkVisibility()")

    def text(self, name):
        return self.run(f"document.getElementById('{name}').textContent")

    def click(self, name):
        self.run(f"document.getElementById('{name}').click()")

    def complaints(self):
        """Errors of scripts, and whatever the policy of the page forbade."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in kinds]

    def close(self):
        os.close(self._write)
        os.close(self._read)
        self._process.terminate()
        self._process.wait(120)


@pytest.fixture(scope="session")
def browser():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        reason = f"NO BROWSER: the page is not tested; install one of {', '.join(BROWSERS)}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    folder = tempfile.mkdtemp()
    found = Browser(program, folder)
    yield found
    found.close()
    shutil.rmtree(folder, ignore_errors=True)
