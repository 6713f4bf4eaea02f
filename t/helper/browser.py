"""Opens a page in chromium without a window, and prints one line for each thing that it was asked for.

    browser.py PAGE [WIDTH] COMMAND...

    console            prints each message of the page's console, and each request but those for the page and
                       for data that the page has
    hover SELECTOR     moves the pointer on an element; prints the text that its style then adds
    click SELECTOR     clicks an element
    eval EXPRESSION    prints the value of an expression of the page, as JSON
    picture FILE       writes the visible part of the page as a PNG
"""
import base64, json, os, subprocess, sys, tempfile

page, words = os.path.abspath(sys.argv[1]), sys.argv[2:]
width = int(words.pop(0)) if words and words[0].isdigit() else 1000
profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # chromium may still write there
read_end, to_browser = os.pipe()
from_browser, write_end = os.pipe()


def fds():  # chromium reads commands from 3 and writes answers to 4
    os.dup2(read_end, 30), os.dup2(write_end, 31)
    os.dup2(30, 3), os.dup2(31, 4)


chromium = subprocess.Popen(
    ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
     "--no-first-run", f"--window-size={width},900", f"--user-data-dir={profile.name}", "about:blank"],
    close_fds=False, preexec_fn=fds, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL)
os.close(read_end), os.close(write_end)
pipe, rest, count, seen = os.fdopen(to_browser, "wb", 0), b"", 0, []


def message():
    global rest
    while b"\0" not in rest:
        rest += os.read(from_browser, 1 << 20) or sys.exit("browser.py: chromium has ended")
    one, rest = rest.split(b"\0", 1)
    return json.loads(one)


def call(method, session=None, **params):
    global count
    count += 1
    ask = {"id": count, "method": method, "params": params}
    if session:
        ask["sessionId"] = session
    pipe.write(json.dumps(ask).encode() + b"\0")
    while True:
        got = message()
        if got.get("id") == count:
            if "error" in got:
                sys.exit(f"browser.py: {method}: {got['error']['message']}")
            return got["result"]
        seen.append(got)


target = next(t for t in call("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
tab = call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
for domain in "Page", "Runtime", "Log", "Network":
    call(domain + ".enable", tab)
call("Page.navigate", tab, url="file://" + page)
while not any(m.get("method") == "Page.loadEventFired" for m in seen):
    seen.append(message())


def value(expression):
    got = call("Runtime.evaluate", tab, expression=expression, returnByValue=True)
    if "exceptionDetails" in got:
        sys.exit(f"browser.py: {expression}: {got['exceptionDetails']['text']}")
    return got["result"].get("value")


def point(selector, click):
    box = value(f"(e => {{ e.scrollIntoView({{block: 'center'}}); e = e.getClientRects()[0];"
                f" return [e.x + e.width / 2, e.y + e.height / 2] }})(document.querySelector({selector!r}))")
    for kind in ["mouseMoved"] + ["mousePressed", "mouseReleased"] * click:
        call("Input.dispatchMouseEvent", tab, type=kind, x=box[0], y=box[1],
             button="left" if click else "none", clickCount=int(click))


while words:
    word = words.pop(0)
    if word == "console":
        for m in seen:
            if m.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                print("message", json.dumps(m["params"]))
            if m.get("method") == "Network.requestWillBeSent" and \
                    not m["params"]["request"]["url"].startswith(("file://" + page, "data:")):
                print("request", m["params"]["request"]["url"])
    elif word == "hover":
        selector = words.pop(0)
        point(selector, False)
        # the style's counters are not part of the text that a script sees, so they are drawn as c(name)
        print(value(f"getComputedStyle(document.querySelector({selector!r}), '::after').content"))
    elif word == "click":
        point(words.pop(0), True)
    elif word == "eval":
        print(json.dumps(value(words.pop(0))))
    elif word == "picture":
        with open(words.pop(0), "wb") as f:
            f.write(base64.b64decode(call("Page.captureScreenshot", tab)["data"]))
chromium.kill()
chromium.wait()
