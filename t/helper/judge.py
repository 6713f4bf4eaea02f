"""judge.py MODE -- the command of tests of rf-reward --exec and rf-select --exec; MODE names its mistake."""
import json
import os
import sys
import time

mode = sys.argv[1]


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def answer(line):
    body = json.loads(line)["body"]
    if "rollout" not in body:  # positions: the last one, one that depends on the id, and the first one twice
        last = body["tokens"]["shape"][0] - head["k"]
        return {"id": body["id"], "positions": [last, min(2 + body["id"] % 7, last), 1, 1]}
    c, n, _ = body["rollout"]["tokens"]["shape"]
    return {"id": body["id"], "total": [[body["id"] + i + r / 4 for r in range(n)] for i in range(c)]}


def wrong_parts(of, x):
    """Returns the parts to add to an answer, which are wrong in the way that `of` names."""
    names = {"computed": "edit", "planted": "planted", "no-name": "a-b", "long": "p" * 33, "empty-name": "",
             "escape": "\x1b[1m"}
    values = {"rows": x[:-1], "few": [x[0], x[1][:-1]], "flat": x[0] + x[1], "number": 1, "map": {"0": x[0]},
              "strings": [[1, "2"], x[1]], "nulls": [[None, 1], x[1]], "deep": [[[1], [2]], x[1]],
              "big": [[1, 1e39], x[1]], "true": [[1, True], x[1]]}
    if of == "many":
        return {"p%d" % i: x for i in range(29)}
    return {names[of]: x} if of in names else {"bad": values[of]} if of in values else {}


head = json.loads(sys.stdin.readline())
if mode == "head":  # answers the head like a record
    say('{"id": null}')
    sys.stdin.read()
lines = sys.stdin
if mode in ("late", "one-more"):
    lines = sys.stdin.readlines()
if mode == "ahead":                                          # answers each record after it read the next one
    kept = []
    for line in sys.stdin:
        kept.append(line)
        if len(kept) > 1:
            say(json.dumps(answer(kept.pop(0))))
    lines = kept
if mode == "threads":  # one thread reads as fast as it can, the other one answers slowly
    import queue      # other modes start often, and need neither
    import threading

    todo, begun = queue.Queue(), threading.Event()

    def read():
        for item in sys.stdin:
            todo.put(item)
            begun.wait()
        todo.put(None)

    threading.Thread(target=read, daemon=True).start()
    lines = iter(todo.get, None)
for count, line in enumerate(lines):
    a = answer(line)
    if mode == "slow-start" and count == 0:
        time.sleep(0.5)
    if count == 1:                                           # the second answer is the wrong one
        if mode == "id":
            a["id"] += 1
        elif mode == "no-id":
            del a["id"]
        elif mode == "few":
            a["total"][1] = a["total"][1][:-1]
        elif mode == "many":
            a["total"][1].append(0)
        elif mode == "rows":
            a["total"] = a["total"][:-1]
        elif mode == "flat":
            a["total"] = [x for row in a["total"] for x in row]
        elif mode == "nan":
            a["total"][0][1] = float("nan")
        elif mode == "big":
            a["total"][0][1] = 1e39
        elif mode == "text":
            a["total"][0][1] = "0.5"
        elif mode == "nul":
            say('{"id": 1\0}')
            continue
        elif mode == "garbage":
            say("reward: \x1b[31m0.5")
            continue
        elif mode == "doubled":
            say('{"id": 1, "total": [[1, 2], [3, 4]], "total": [[5, 6], [7, 8]]}')
            continue
        elif mode == "list":
            say("[1, 2]")
            continue
        elif mode == "blank":
            say("")
        elif mode == "twice":
            say(json.dumps(a))
        elif mode == "skip":
            continue
        elif mode == "die":
            sys.exit(3)
        elif mode == "hang":
            time.sleep(60)
        elif mode == "close":
            os.close(1)
            time.sleep(60)
        elif mode == "endless":
            sys.stdout.write("x" * (20 << 20))
    if mode.startswith("parts"):
        a["parts"] = {"twice": [[2 * x for x in row] for row in a["total"]]}
        if count != 1:                                       # the second answer has wrong parts instead
            a["parts"]["Half_1"] = [[x / 2 for x in row] for row in a["total"]]
        else:
            a["parts"].update(wrong_parts(mode[6:], a["total"]))
            a["parts"] = {"parts-list": [1], "parts-null": None, "parts-empty": {}}.get(mode, a["parts"])
        if mode == "parts-doubled":
            say(json.dumps(a).replace('"twice":', '"twice": 0, "twice":'))
            continue
    if mode == "extra":
        a["why"] = ["any", "thing"]
    elif mode == "string-id":
        a["id"] = str(a["id"])
    if mode == "no-newline" and count:
        sys.stdout.write("\n")
    if mode == "no-newline":
        sys.stdout.write(json.dumps(a))
    elif mode == "spaces":
        say("  " + json.dumps(a, indent=None, separators=(" , ", " : ")) + " \r")
    elif mode == "buffered":
        print(json.dumps(a))
    else:
        say(json.dumps(a))
    if mode == "threads":
        begun.set()
        time.sleep(0.02)
if mode == "one-more":
    say('{"id": 99, "total": []}')
if mode == "last":
    sys.exit(1)
