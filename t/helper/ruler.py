"""ruler.py PACKAGE <PROMPTS -- compares prompts of rf-needle with those that lm-eval's own code builds.

PACKAGE is the folder of the installed package lm_eval.  The package's generate_input_output() builds each
prompt of rf-needle again, with the keys, values, words and places of rf-needle instead of random ones.
Mock modules replace those that the package imports.  The program ends at the first prompt that differs;
otherwise it prints the number of equal prompts.
"""
import importlib
import importlib.metadata
import itertools
import json
import re
import sys
import types
from unittest import mock

package = sys.argv[1]
for name in ("datasets", "nltk", "numpy", "packaging", "packaging.version", "requests", "scipy",
             "scipy.special", "tqdm", "transformers", "wonderwords"):
    sys.modules[name] = mock.MagicMock()
sys.modules["packaging.version"].parse = str
importlib.metadata.version = lambda name: "9"
for name, folder in ("lm_eval", ""), ("lm_eval.tasks", "/tasks"), ("lm_eval.tasks.ruler", "/tasks/ruler"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [package + folder]
niah, niah_utils, vt, cwe, fwe, qa = (
    importlib.import_module(f"lm_eval.tasks.ruler.{name}") for name in
    ("prepare_niah", "niah_utils", "vt_utils", "cwe_utils", "fwe_utils", "qa_utils"))
KINDS = {"niah_single_1": ("repeat", 1, 1, 1), "niah_multikey_2": ("needle", 1, 1, 1),
         "niah_multikey_3": ("needle", 1, 1, 1)}


def same(prompt, package, line):
    if prompt != package:
        least = min(len(prompt), len(package))
        at = next((i for i in range(least) if prompt[i] != package[i]), least)
        sys.exit(f"{line['task']}: rf-needle has {prompt[at - 20:at + 40]!r} where RULER has "
                 f"{package[at - 20:at + 40]!r}")


def between(text, template, **filled):
    """Returns the part of a text that replaces {context} in a template, whose other names are filled in."""
    head, tail = template.replace("{context}", "\0").format(**filled).split("\0")
    assert text.startswith(head) and text.endswith(tail), (text[:80], text[-80:], head, tail)
    return text[len(head):len(text) - len(tail)]


def of_niah(line):
    if line["task"] not in KINDS:
        return of_many(line)
    haystack, k, v, q = KINDS[line["task"]]
    kind = "uuids" if line["task"].endswith("_3") else "numbers"
    needle = re.escape(niah.NEEDLE.format(type_needle_v=kind, key="\0", value="\0"))
    needle = re.compile(needle.replace("\0", "(.*)"))
    lines = line["input"].split("\n")[1:-1]
    pairs = [needle.fullmatch(text) for text in lines]
    at = next(i for i, pair in enumerate(pairs) if pair and pair[2] == line["outputs"][0])
    drawn = [line["query"], line["outputs"][0]]
    if haystack == "needle":
        drawn += [text for i, pair in enumerate(pairs) if i != at for text in pair.groups()]
    with mock.patch.object(niah, "generate_random", side_effect=drawn), \
            mock.patch.object(niah.random, "sample", side_effect=[[at], [0]]):
        built = niah.generate_input_output(
            len(lines) - 1, niah.get_haystack(haystack), type_haystack=haystack, num_needle_k=k,
            type_needle_k="words", num_needle_v=v, type_needle_v=kind, template=niah_utils.TEMPLATE,
            num_needle_q=q)
    same(line["input"], built[0], line)
    of_prefix(line, built, k, v, q, kind)


def of_many(line):
    """Compares a prompt with several answers, except its essay, which the package divides into sentences."""
    context = between(line["input"], niah_utils.TEMPLATE, type_needle_v="numbers", query=line["query"])
    for value in line["outputs"]:
        assert any(niah.NEEDLE.format(type_needle_v="numbers", key=key, value=value) in context
                   for key in re.split(", (?:and )?", line["query"])), value
    text = niah_utils.TEMPLATE.format(type_needle_v="numbers", context=context, query=line["query"])
    built = text, line["outputs"], line["query"]
    of_prefix(line, built, 1, len(line["outputs"]), 1, "numbers")


def of_prefix(line, built, k, v, q, kind):
    with mock.patch.object(niah, "generate_input_output", return_value=built), \
            mock.patch.object(niah, "tqdm", side_effect=lambda of, **_: of):
        sample, = niah.generate_samples(
            "", lambda text: types.SimpleNamespace(input_ids=text), max_seq_length=len(built[0]) + 128,
            type_haystack="repeat", type_needle_k="words", type_needle_v=kind, template="", num_samples=1,
            num_needle_k=k, num_needle_v=v, num_needle_q=q)
    same(line["answer_prefix"], " " + sample["gen_prefix"], line)


def chain(text, names, example):
    """Returns the package's prompt with these names, and with the value and the places that the text has."""
    lines = [one for one in text[:text.rindex("\n")].split("\n") if one]
    value = next(one for one in lines if names[0] in one).split()[-1]
    noise = [one for one in lines[1:] if not any(name in one for name in names)]
    places = list(itertools.accumulate(one in noise for one in lines[1:]))
    places = [place for place, one in zip(places, lines[1:]) if one not in noise]
    with mock.patch.object(vt.random, "choices", side_effect=[list(name) for name in names]), \
            mock.patch.object(vt.random, "sample", return_value=places), \
            mock.patch.object(vt.np.random, "randint", return_value=value):
        return vt.generate_input_output(max(len(noise), len(names) + 1), 1, len(names) - 1, is_icl=example)[0]


def of_vt(line):
    begin = line["input"].rindex(vt.CONFIG["variable_tracking"]["template"][:20])
    example, text = line["input"][:begin], line["input"][begin:]
    words = lambda of: " ".join(of.split())  # RULER puts an assignment and noise into one line
    same(words(text + line["answer_prefix"]), words(chain(text, line["outputs"], False)), line)
    names = example.split()[-5:]
    body = example[:example.index(vt.CONFIG["variable_tracking"]["answer_prefix"][:20])]
    built = chain(body, names, True)
    same(example[len(body):], built[built.rindex(" Answer:"):] + " " + " ".join(names) + "\n\n\n\n", line)


def of_cwe(line):
    begin = line["input"].rindex(cwe.CONFIG["template"][:20])
    example, text = line["input"][:begin], line["input"][begin:] + line["answer_prefix"]
    asked, answers = example[:-1].rsplit(cwe.CONFIG["answer_prefix"], 1)
    contexts = [(between(asked, cwe.CONFIG["template"]), re.sub(r"\d+\. ", "", answers).split()),
                (between(text, cwe.TEMPLATE), line["outputs"])]
    with mock.patch.object(cwe, "get_example", side_effect=contexts):
        built = cwe.generate_input_output(0, 4096)
    same(line["input"] + line["answer_prefix"], built[0] + "\n" + built[1], line)


def of_fwe(line):
    text = line["input"] + line["answer_prefix"]
    same(text, fwe.TEMPLATE.format(context=between(text, fwe.TEMPLATE), query=""), line)


def of_qa(line):
    context, i, docs = between(line["input"], qa.TEMPLATE, query=line["query"]), 1, []
    while (begin := context.find(qa.DOCUMENT_PROMPT.format(i=i, document=""))) >= 0:
        end = context.find("\n\n" + qa.DOCUMENT_PROMPT.format(i=i + 1, document=""))
        begin += len(qa.DOCUMENT_PROMPT.format(i=i, document=""))
        docs.append(context[begin:end if end >= 0 else None])
        i += 1
    assert all(doc == doc.strip() for doc in docs), docs
    asked = {"query": line["query"], "outputs": line["outputs"], "context": []}
    with mock.patch.object(qa.random, "Random", return_value=types.SimpleNamespace(shuffle=lambda of: None)):
        same(line["input"], qa.generate_input_output(0, len(docs), [asked], docs)[0], line)
    same(line["answer_prefix"], " " + qa.CONFIG["answer_prefix"], line)


compare = {"niah": of_niah, "vt": of_vt, "cwe": of_cwe, "fwe": of_fwe, "qa": of_qa}
compared = 0
for text in sys.stdin:
    prompt = json.loads(text)
    compare[prompt["task"].split("_")[0]](prompt)
    compared += 1
print(compared, "prompts are RULER's")
