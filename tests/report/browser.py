"""A headless Chromium, driven through chromedriver's HTTP interface (W3C WebDriver) and the DevTools protocol."""
import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"]
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Home": "\ue011", "Left": "\ue012", "Up": "\ue013",
        "Right": "\ue014", "Down": "\ue015", "Shift": "\ue008", "End": "\ue010"}


class Browser:
    """Use as a context manager; the browser and its files are removed at the end."""

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="kilter-browser-")
        self.driver = subprocess.Popen([shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        self.session = ""
        try:
            self.base = f"http://127.0.0.1:{self._port()}"
            self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            options = {"args": FLAGS + [f"--user-data-dir={self.home}/user"], "binary": shutil.which("chromium")}
            answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
            self.session = f"/session/{answer['sessionId']}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self._call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(timeout=20)
            shutil.rmtree(self.home, ignore_errors=True)

    def _port(self):
        for line in self.driver.stdout:
            if "successfully on port " in line:
                return int(line.split("successfully on port ")[1].split(".")[0])
        raise RuntimeError("chromedriver ended without naming its port")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=150) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {json.load(error)['value']['message']}") from None

    def call(self, path, body):
        return self._call("POST", self.session + path, body)

    def devtools(self, command, **params):
        return self.call("/goog/cdp/execute", {"cmd": command, "params": params})

    def js(self, script, *args):
        """Runs a script as the body of a function with `args` as `arguments[0]` and so on. Returns its result."""
        return self.call("/execute/sync", {"script": script, "args": list(args)})

    def go_offline(self):
        """Blocks all requests from now on, and forgets those that the browser made while it started."""
        self.call("/url", {"url": "about:blank"})
        self.requests()
        self.devtools("Network.enable")
        self.devtools("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)

    def screen(self, width, height, dark=False, phone=False):
        """Sets the screen for pages. Closes the current page, because a scrolling page delays the change of size."""
        self.call("/url", {"url": "about:blank"})
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                      mobile=phone)
        self.devtools("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.media(dark=dark)

    def media(self, dark=False, still=True):
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}])

    def open(self, path):
        """Opens a file by way of a blank page, because a change of only the address's fragment would not reload it."""
        self.call("/url", {"url": "about:blank"})
        self.call("/url", {"url": f"file://{path}"})
        self.settle()

    def settle(self):
        """Waits until a change of size or colour has been drawn."""
        self.call("/execute/async", {"script": "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame("
                                     "() => setTimeout(done, 60)));", "args": []})

    def press(self, *keys):
        """Presses keys one after another; "Shift+Tab" presses Tab while Shift is down."""
        actions = []
        for key in keys:
            parts = key.split("+") if len(key) > 1 else [key]
            codes = [KEYS.get(part, part) for part in parts]
            actions += [{"type": "keyDown", "value": code} for code in codes]
            actions += [{"type": "keyUp", "value": code} for code in reversed(codes)]
        self.call("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def tap(self, x, y):
        for kind in ("touchStart", "touchEnd"):
            self.devtools("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y}] if kind == "touchStart" else [])
        self.settle()

    def mouse(self, kind, x, y, **more):
        self.devtools("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def screenshot(self, path, scale=1):
        """Writes a PNG of the whole page and returns it in base64. Browsers draw at most 16384 pixels, so longer pages need a scale below 1."""
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": scale}
        data = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
        return data

    def logs(self, kind):
        return self.call("/se/log", {"type": kind})

    def requests(self):
        """Returns the addresses that anything in the browser has requested since the last call."""
        found = []
        for entry in self.logs("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return found

    def wait_for(self, script, *args, seconds=5):
        end = time.monotonic() + seconds
        while not (value := self.js(script, *args)):
            if time.monotonic() > end:
                raise AssertionError(f"never became true: {script}")
            time.sleep(0.05)
        return value
