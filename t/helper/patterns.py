"""Makes random regular expressions of tokenizer.json, and matches them by the Rust library `tokenizers`.

    patterns.py make SEED COUNT FILE    COUNT patterns with 20 texts each, lines for the helper `patterns`
    patterns.py check FILE              the same lines as the helper prints, by `tokenizers`; exit status 69
                                        if the package is not installed
"""

import json
import random
import sys

ESCAPES = [r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\h", r"\H", r"\v", r"\t", r"\n", r"\r", r"\f", r"\.",
           r"\-", r"\x41", r"\x{df}", r"\u00e9", r"\x{1F600}"]
PROPERTIES = ["L", "N", "M", "P", "S", "Z", "Lu", "Ll", "Nd", "Han", "Hiragana", "Cyrillic", "Latin", "Greek",
              "Alnum", "Alpha", "Space", "Punct", "Any", "Script_Extensions=Han", "Emoji", "^L", "^Han"]
LETTERS = "abABsSk019 '\t\n.,ßéÉſK漢、かДδΣς\u0301\u2028\u00a0\U0001F600"
RUNS = ["ss", "SS", "ffi", "ﬃ", "st", "ﬆ", "İ", "i̇", "12", "  ", "\r\n", "don't", "漢字", "、", "\u0345"]
QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{,2}", "{1,}", "{1,2}", "{1,2}?",
               "{2}+", "{,}", "{a}"]
GROUPS = ["(?:", "(", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:", "(?m:", "(?x:", "(?i-m:",
          "(?<n>"]
CLASSES = ["[:alpha:]", "[:digit:]", "[:space:]", "[:^upper:]", "[:graph:]", "[:word:]"]


def prop(r):
    name = r.choice(PROPERTIES)
    return r.choice([r"\p{%s}", r"\p{%s}", r"\P{%s}"]) % name


def members(r, depth):
    out = []
    for _ in range(r.randint(1, 4)):
        kind = r.randrange(10)
        if kind < 3:
            out.append(r.choice(LETTERS))
        elif kind < 5:
            out.append(prop(r))
        elif kind < 7:
            out.append(r.choice(ESCAPES))
        elif kind == 7:
            out.append(r.choice(["a-z", "0-9", "A-Z", "\\x{4e00}-\\x{9fff}", "а-я"]))
        elif kind == 8:
            out.append(r.choice(CLASSES))
        elif depth:
            out.append(charset(r, depth - 1))
    return "".join(out) or "a"


def charset(r, depth):
    text = members(r, depth)
    if r.random() < 0.1:
        text += "&&" + members(r, depth)
    return "[" + r.choice(["", "", "^"]) + text + "]"


def atom(r, depth):
    kind = r.randrange(12)
    if kind < 3:
        return r.choice(LETTERS).replace(".", r"\.")
    if kind == 3:
        return r.choice(RUNS)
    if kind == 4:
        return r.choice(ESCAPES)
    if kind == 5:
        return prop(r)
    if kind < 8:
        return charset(r, 1)
    if kind == 8:
        return r.choice([".", "^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G", r"\X", r"\K", r"\1"])
    if kind == 9:
        return "(?i)" if r.random() < 0.5 else "(?-i)"
    if depth:
        return r.choice(GROUPS) + alternatives(r, depth - 1) + ")"
    return "x"


def sequence(r, depth):
    out = []
    for _ in range(r.randint(1, 4)):
        out.append(atom(r, depth))
        if r.random() < 0.4:
            out.append(r.choice(QUANTIFIERS))
    return "".join(out)


def alternatives(r, depth):
    return "|".join(sequence(r, depth) for _ in range(r.choice([1, 1, 2, 3])))


def make(seed, count, path):
    r = random.Random(seed)
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(count):
            pattern = alternatives(r, 2)
            texts = []
            for _ in range(20):
                parts = [r.choice(LETTERS) if r.random() < 0.6 else r.choice(RUNS)
                         for _ in range(r.randint(1, 12))]
                texts.append("".join(parts))
            f.write(json.dumps({"pattern": {"Regex": pattern}, "texts": texts}, ensure_ascii=False) + "\n")


def show(split, replace, text):
    """Returns the matches, in bytes instead of characters, and the text with replacements, in hex."""
    matches = []
    for _, (begin, end) in split.pre_tokenize_str(text):
        matches.append((len(text[:begin].encode()), len(text[:end].encode())))
    return matches, replace.normalize_str(text).encode().hex()


def check(path):
    try:
        from tokenizers import Regex, normalizers, pre_tokenizers
    except ImportError:
        sys.exit(69)
    with open(path, encoding="utf-8") as f:
        for line in f:
            case = json.loads(line)
            try:
                regex = Regex(case["pattern"]["Regex"])
            except Exception:
                print("refused")
                continue
            # with "removed" and inverted, only the matches are left
            split = pre_tokenizers.Split(regex, "removed", invert=True)
            replace = normalizers.Replace(regex, "-")
            for text in case["texts"]:
                try:
                    matches, replaced = show(split, replace, text)
                except BaseException as fault:  # the library panics at its limits
                    if isinstance(fault, KeyboardInterrupt):
                        raise
                    print("fails")
                    continue
                print("".join(f"{a}-{b}," for a, b in matches), replaced)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        check(sys.argv[2])
