"""needle.py -- checks lines of rf-needle in its built-in words, by an independent reader.

    needle.py check [--essay FILE] [--qa FILE] [--tokens bytes|SLACK] FILE    checks each line
    needle.py paired FILE               checks that the samples are the same at every length
    needle.py uniform --bound BOUND FILE
                                        checks Kolmogorov's statistic of the depths times sqrt(n), per task
                                        and length
"""

import argparse
import collections
import json
import math
import re
import sys

NOISE = "The lake is calm. The road is long. The bread is warm. On we walk. Soon we are home."
NEEDLE = re.compile(r"Among the hidden (numbers|uuids), that of (\S+) is (\S+)\.")
NUMBER = re.compile(r"[1-9]\d{6}")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
WORDS = re.compile(r"[a-z]+-[a-z]+")
NEW = {"niah": 128, "vt": 30, "cwe": 120, "fwe": 50, "qa": 32}
# haystack, keys, values of each, keys asked for, pattern of keys and of values
NIAH = {
    "niah_single_1": ("noise", 1, 1, 1, WORDS, NUMBER),
    "niah_single_2": ("essay", 1, 1, 1, WORDS, NUMBER),
    "niah_single_3": ("essay", 1, 1, 1, WORDS, UUID),
    "niah_multikey_1": ("essay", 4, 1, 1, WORDS, NUMBER),
    "niah_multikey_2": ("needles", 1, 1, 1, WORDS, NUMBER),
    "niah_multikey_3": ("needles", 1, 1, 1, UUID, UUID),
    "niah_multivalue": ("essay", 1, 4, 1, WORDS, NUMBER),
    "niah_multiquery": ("essay", 4, 1, 4, WORDS, NUMBER),
}


def size(text):
    return len(text.encode())


def words_of_essay(essay, n):
    return [essay[i % len(essay)] for i in range(n)]


def check_places(s, context):
    """Checks that depth and needles fit the text; returns the texts of the needles."""
    assert len(s["depth"]) == len(s["needles"]) == len(s["drawn"])
    for depth, (begin, end) in zip(s["depth"], s["needles"]):
        own = end - begin
        assert s["context"][0] <= begin < end <= s["context"][1]
        rest = len(context) - own
        assert abs(depth - (begin - s["context"][0]) / rest if rest else depth) < 1e-6
    return [s["input"][b:e] for b, e in s["needles"]]


def check_niah(s, context, given):
    """Checks a line; returns the most bytes that one more unit takes."""
    haystack, keys, values, queries, key, value = NIAH[s["task"]]
    found = NEEDLE.findall(context)
    answers = [NEEDLE.fullmatch(text) for text in check_places(s, context)]
    assert len(s["outputs"]) == queries * values == len(answers)
    assert [a[3] for a in answers] == s["outputs"]
    assert list(dict.fromkeys(a[2] for a in answers)) == re.split(", and |, ", s["query"])
    assert len({a[2] for a in answers}) == queries
    for a in answers:
        assert s["input"].count(a[0]) == 1 and s["input"].count(a[3]) == 1
    for kind, k, v in found:
        assert key.fullmatch(k) and value.fullmatch(v)
        assert kind == ("uuids" if value is UUID else "numbers")
    assert len({v for _, _, v in found}) == len(found)
    assert [n for _, n in sorted(zip(s["drawn"], s["needles"]))] == sorted(s["needles"])
    one = "A " if len(answers) == 1 else "Several "
    assert s["input"].startswith(one) and s["answer_prefix"].endswith(" is" if one == "A " else " are")
    if haystack == "needles":
        assert len(found) == s["units"] + 1 and len(set(k for _, k, _ in found)) == len(found)
        assert "\n".join(NEEDLE.fullmatch(line)[0] for line in context.split("\n")) == context
        return max(map(size, context.split("\n"))) + 8
    assert len(found) == keys * values and len({k for _, k, _ in found}) == keys
    if haystack == "noise":
        assert [x for x in context.split("\n") if not NEEDLE.fullmatch(x)] == [NOISE] * s["units"]
        return size(NOISE) + 1
    rest = NEEDLE.sub("\0", context).split()
    assert [w for w in rest if w != "\0"] == words_of_essay(given.essay, s["units"])
    # a needle stands where a sentence ends, unless none ends within 32 words
    words = [w for w in rest if w != "\0"]
    ends = [n for n in range(len(words) + 1)
            if n in (0, len(words)) or re.search(r"[.!?][\"')\]’”]*$", words[n - 1])]
    before = 0
    for w in rest:
        before += w != "\0"
        if w == "\0" and before not in ends:
            assert all(abs(e - before) > 32 for e in ends)
    return size(given.essay[s["units"] % len(given.essay)]) + 1


def check_vt(s, context, given):
    lines = check_places(s, context)
    names = s["outputs"]
    assert len(set(names)) == 5 and all(re.fullmatch("[A-Z]{5}", n) for n in names)
    assert 10000 <= int(s["query"]) <= 99998 and s["query"] != "12345"
    values = [s["query"], *names]
    assert lines == [f"LET {n} = {v}" for n, v in zip(names, values)]
    assert [x for x in context.split("\n") if x != NOISE] == lines
    assert context.split("\n").count(NOISE) == s["units"]
    assert all(s["input"].count(line) == 1 for line in lines)
    assert s["drawn"] == sorted(s["drawn"]) and s["depth"] == sorted(s["depth"])
    example = s["input"][: s["input"].rindex("In the text below")]
    assert given.tokens != "bytes" or size(example) <= min(500, max(s["length"] // 8, 364))
    assert example.endswith("\n\n")
    short = re.findall("LET ([A-Z]{3}) = (\\S+)", example)
    assert [v for _, v in short] == ["12345"] + [n for n, _ in short[:-1]] and len(short) == 5
    assert example.endswith(" which are: " + " ".join(n for n, _ in short) + "\n\n")
    return size(NOISE) + 1


def counted(text):
    items = re.findall(r"(\d+)\. (\S+)", text)
    assert " ".join(f"{i}. {w}" for i, w in items) == text
    assert [int(i) for i, _ in items] == list(range(1, len(items) + 1))
    return collections.Counter(w for _, w in items)


def check_cwe(s, context, given):
    counts = counted(context)
    shape = "Find out which.\n(.*)\nQuestion.* in the list are: (.*)\n\n"
    example, answer = re.search(shape, s["input"]).groups()
    shown, right = counted(example), counted(answer)
    common, others = (30, 3) if len(shown) == 40 else (6, 1)
    assert len(shown) in (20, 40) and len(right) == 10
    for w, n in shown.items():
        assert n == ((10, 3) if common == 30 else (3, 1))[w not in right]
    assert len(s["outputs"]) == len(set(s["outputs"])) == 10
    for w, n in counts.items():
        assert n == (common if w in s["outputs"] else others), (w, n)
    assert len(counts) == 10 + s["units"] and not set(counts) & set(shown)
    assert s["depth"] == s["needles"] == []
    return others * (max(map(size, counts)) + 24)


def times(rank, n):
    return math.floor(n / rank**2 / (math.pi**2 / 6))


def check_fwe(s, context, given):
    counts = collections.Counter(context.split(" "))
    expected = [times(r, s["units"]) for r in range(1, (s["length"] - 50) // 50 + 1)]
    assert sorted(counts.values(), reverse=True) == [n for n in expected if n]
    assert [w for w, _ in counts.most_common(4)] == ["..."] + s["outputs"]
    assert len({counts[w] for w in counts if counts[w] >= counts[s["outputs"][2]]}) == 4
    assert all(re.fullmatch("[a-z]{6}", w) for w in counts if w != "...")
    return sum((times(r, s["units"] + 1) - n) * (4 if r == 1 else 7) for r, n in enumerate(expected, 1))


def check_qa(s, context, given):
    (q,) = [q for q in given.qa if q["question"] == s["query"] and q["answers"] == s["outputs"]]
    own = [q["context"]] if "context" in q else q["paragraphs"]
    title = {}
    for x in given.qa:
        for p in [x["context"]] if "context" in x else x["paragraphs"]:
            title.setdefault(p, x.get("title"))
    documents = re.split("\n\n(?=Document )", context)
    texts = []
    for i, d in enumerate(documents, 1):
        head, text = d.split("\n", 1)
        assert head == f"Document {i}:" and text in title
        texts.append(text)
    assert [d.split("\n", 1)[1] for d in check_places(s, context)] == own
    assert len(texts) == len(own) + s["units"] and all(texts.count(p) == 1 for p in own)
    others = collections.Counter(t for t in texts if t not in own)
    alike = [p for p in title if title[p] is not None and title[p] == title[own[0]] and p not in own]
    # documents with the same title come first, and no document comes twice before all have come once
    if any(p not in alike for p in others):
        assert all(p in others for p in alike)
    if max(others.values(), default=1) > 1:
        assert len(others) == len(set(title) - set(own))
    assert s["input"].endswith("Question: " + q["question"])
    return max(map(size, title)) + 20


def check(s, given):
    assert list(s) == ("index task length tokens max_new_tokens units context needles depth drawn query "
                       "outputs input answer_prefix").split()
    kind = s["task"].split("_")[0]
    assert s["max_new_tokens"] == NEW[kind]
    assert re.match(" [^ ]", s["answer_prefix"]) and s["answer_prefix"] not in s["input"][-200:]
    context = s["input"][slice(*s["context"])]
    more = globals()["check_" + kind](s, context, given)
    assert s["tokens"] <= s["length"]
    slack = s["length"] - s["tokens"]
    if given.tokens == "bytes":
        assert s["tokens"] == size(s["input"] + s["answer_prefix"]) + NEW[kind]
        assert slack < more, f"{slack} bytes are left, but {more} are enough"
    else:
        assert slack < int(given.tokens)


def each(name):
    with open(name, encoding="utf-8") as f:
        for n, line in enumerate(f, 1):
            yield n, json.loads(line)


def paired(samples):
    """Checks that all draws are the same at every length, and that needles are near the drawn depths."""
    first = {}
    for s in samples:
        drawn = {k: s[k] for k in ("outputs", "query", "drawn", "index", "task")}
        assert first.setdefault((s["task"], s["index"]), drawn) == drawn
        # in an essay a needle moves by up to 32 words, and words have different lengths
        far = 0.1 + 32 / (s["units"] + 1) if s["task"] in NIAH and NIAH[s["task"]][0] == "essay" else (
            0.05 + 12 / (s["units"] + 1))
        for depth, at in zip(s["depth"], s["drawn"]):
            assert abs(depth - at) < far or s["task"].startswith("qa"), (s["task"], depth, at)
    different = {json.dumps(v["drawn"]) + v["query"] + str(v["outputs"]) for v in first.values()}
    assert len(different) == len(first)


def uniform(samples, bound):
    depths = collections.defaultdict(list)
    for s in samples:
        for d, u in zip(s["depth"], s["drawn"]):
            depths[s["task"], s["length"], "depth"].append(d)
            depths[s["task"], "drawn"].append(u)
    for key, d in depths.items():
        d.sort()
        far = max(max((i + 1) / len(d) - x, x - i / len(d)) for i, x in enumerate(d)) * len(d) ** 0.5
        print(*key, len(d), round(far, 3))
        assert far < bound, f"{key}: {far}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["check", "paired", "uniform"])
    p.add_argument("--essay")
    p.add_argument("--qa")
    p.add_argument("--tokens", default="bytes")
    p.add_argument("--bound", type=float)
    p.add_argument("file")
    given = p.parse_args()
    if given.essay:
        given.essay = open(given.essay, encoding="utf-8").read().split()
    if given.qa:
        given.qa = [q for _, q in each(given.qa)]
    if given.what == "paired":
        return paired(s for _, s in each(given.file))
    if given.what == "uniform":
        return uniform((s for _, s in each(given.file)), given.bound)
    seen = collections.Counter()
    for n, s in each(given.file):
        try:
            check(s, given)
        except AssertionError:
            print(f"line {n}: {s['task']} {s['length']} {s['index']}", file=sys.stderr)
            raise
        seen[s["task"], s["length"], s["index"]] += 1
    assert max(seen.values()) == 1
    print(len(seen))
    return None


main()
