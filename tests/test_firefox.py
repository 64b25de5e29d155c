#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page in Firefox: every view says what it says in Chromium, and no error comes up. The page stands in a frame
of the same size in both, and the frame's parent goes from view to view and sends what it has read."""
import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import threading

from harness import Folder, MAYFLY, SOURCE, Skip, cases, check, environment, main, need, read, run, same, wait_until

GOLDEN = os.path.join(SOURCE, "tests", "golden")
PARENT = """<!DOCTYPE html>
<iframe src="page.html" width="1280" height="800"></iframe>
<script>
const views = %s;
const frame = document.querySelector("iframe");
const found = { errors: [], texts: {} };
const settled = (page) => page.querySelector("main, [role=alert]") &&
	!page.querySelector("[aria-busy=true], .loading, .waiting, .total:empty");
/* Firefox and Chromium differ in innerText of what a closed list offers. */
function textOf(document) {
	const words = [];
	const walker = document.createTreeWalker(document.body, 4 /* texts */);
	for (let node = walker.nextNode(); node; node = walker.nextNode())
		if (!node.parentElement.closest("select, script, style") && node.parentElement.checkVisibility())
			words.push(node.data);
	return words.join(" ");
}
const pause = () => new Promise((resolve) => setTimeout(resolve, 100));
async function read() {
	const inner = frame.contentWindow;
	inner.addEventListener("error", (event) => found.errors.push(String(event.message)));
	inner.addEventListener("unhandledrejection", (event) => found.errors.push(String(event.reason)));
	for (const view of views) {
		inner.location.hash = "#v1/" + view;
		for (let quiet = 0, last = ""; quiet < 5; await pause()) {
			const text = settled(inner.document) ? textOf(inner.document) : "";
			quiet = text && text === last ? quiet + 1 : 0;
			last = text;
			found.texts[view] = text;
		}
	}
}
frame.addEventListener("load", () => read()
	.catch((error) => found.errors.push(String(error)))
	.then(() => fetch("found", { method: "POST", body: JSON.stringify(found) })));
</script>
"""


def views():
    text = read(os.path.join(SOURCE, "viewer/src/views/index.ts")).decode()
    return re.findall(r'\bid: "(\w+)"', text) + re.findall(r'\bpane\("(\w+)"', text)


class Server(http.server.ThreadingHTTPServer):
    """The parent, the page, and what is sent back."""

    def __init__(self, page):
        self.files = {"/": (PARENT % json.dumps(views())).encode(), "/page.html": page}
        self.found = None
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.server.files.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body or b"")

    def do_POST(self):
        self.server.found = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


BROWSERS = {
    "firefox-esr": lambda home: ["firefox-esr", "--headless", "--no-remote", "--profile", home],
    "chromium": lambda home: ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                              "--disable-background-networking", "--disable-component-update", "--disable-sync",
                              "--user-data-dir=" + home],
}


def shown(browser, page):
    """What each view says, as the browser shows it."""
    server = Server(page)
    with Folder() as home:
        process = subprocess.Popen([*BROWSERS[browser](home.path), "http://127.0.0.1:%d/" % server.server_port],
                                   env=environment(HOME=home.path), start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: server.found or process.poll() is not None, browser)
            check(server.found, browser, "has ended", process.returncode)
        finally:
            with contextlib.suppress(ProcessLookupError):  # all of it has ended
                os.killpg(process.pid, 9)
            process.wait()
            server.shutdown()
    same(server.found["errors"], [], "errors in " + browser)
    return {view: text.split() for view, text in server.found["texts"].items()}


@cases(["sampled", "exact"])
def says_what_chromium_says(kind):
    need("firefox-esr", "chromium")
    with Folder() as here:
        trace = shutil.copy(os.path.join(GOLDEN, kind + ".mayfly"), here / "t.mayfly")
        made = run([MAYFLY, "view", "--html", here / "page.html", trace])
        if made.code:
            raise Skip("there is no page: %s" % made.err)
        page = read(here / "page.html")
    firefox, chromium = (shown(browser, page) for browser in BROWSERS)
    check(len(views()) > 10, views())
    for view in views():
        check(len(chromium[view]) > 20, "little in", view, chromium[view])
        same(firefox[view], chromium[view], view)


if __name__ == "__main__":
    main()
