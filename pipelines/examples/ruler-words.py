#!/usr/bin/env python3
"""ruler-words.py -- prints a template for rf-needle --template with the words of RULER's own prompts.

    ruler-words.py [-o FILE]

The words are those of the package lm-eval (pip install --no-deps lm-eval), which has RULER's tasks in
lm_eval/tasks/ruler.  Its files are read and not run, so nothing that they import is needed:

    pip install --no-deps lm-eval
    python3 pipelines/examples/ruler-words.py -o ruler.json
    rf-needle --template ruler.json --task niah_single_1 --length 4k -n 1 --tokenizer bytes

Prompts and answer prefixes are then those of RULER for all thirteen tasks, with two exceptions.  An
assignment of vt has a separate line, while RULER puts it at the beginning of a line of noise.  In cwe a
worked example precedes the question; the package makes that example, but its prompt lacks it.  rf-needle
draws keys, values, words and places as before.

Exit status: 0 done, 64 usage, 69 lm-eval is not installed, 74 writing failed, 78 lm-eval has other files.
"""
import argparse
import ast
import importlib.util
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from program import (UNAVAILABLE, USAGE, Failure, Output, handle_signals,  # noqa: E402
                     hold_standard_descriptors, run)

CONFIG = 78


class Arguments(argparse.ArgumentParser):
    def error(self, message):
        raise Failure(USAGE, f"{message} (try --help)")

    def _print_message(self, message, file=None):  # --help, to a standard output that may be closed
        with Output("-") as out:
            out.write(message.encode())


class File:
    """A file of the package, as a syntax tree."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name)
        try:
            with open(self.path, "rb") as file:
                self.tree = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError) as error:
            raise Failure(CONFIG, f"{self.path}: {getattr(error, 'strerror', None) or error}") from None

    def missing(self, what):
        return Failure(CONFIG, f"{self.path}: there is no {what} (lm-eval 0.4.13 has it)")

    def function(self, name):
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        raise self.missing(f"function {name}")

    def constant(self, name, where=None):
        """Returns the first literal that the name is set to, in a function or anywhere."""
        for node in ast.walk(where or self.tree):
            if isinstance(node, ast.Assign) and any(getattr(to, "id", None) == name for to in node.targets):
                try:
                    return ast.literal_eval(node.value)
                except ValueError:
                    pass
        raise self.missing(f"text {name}")

    def config(self, *keys):
        """Returns the texts at these keys of CONFIG, or of the only dictionary in it."""
        config = self.constant("CONFIG")
        try:
            if keys[0] not in config:
                config, = config.values()
            return [config[key] for key in keys]
        except (KeyError, TypeError, ValueError):
            raise self.missing(f"CONFIG with {' and '.join(keys)}") from None

    def filled(self, node, *names):
        """Returns the text of an f-string, with these names in braces in place of its values, in order."""
        if not isinstance(node, ast.JoinedStr):
            raise self.missing("text with values where one is expected")
        names, text = list(names), ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += doubled(part.value)
            elif names:
                text += "{" + names.pop(0) + "}"
            else:
                raise self.missing("text with this number of values")
        return text


def doubled(text):
    return text.replace("{", "{{").replace("}", "}}")


def prefix(text):
    """An answer prefix follows the prompt after a blank, and the model's answer brings its own."""
    return " " + text.strip()


def of_niah(folder):
    code = File(folder, "prepare_niah.py")
    many = File(folder, "niah_utils.py").constant("TEMPLATE")
    one = many
    # the package makes the prompt with one answer from the prompt with several
    for node in ast.walk(code.function("generate_input_output")):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and \
                node.func.attr == "replace" and getattr(node.func.value, "id", None) == "template":
            one = one.replace(*(ast.literal_eval(argument) for argument in node.args))
    prefixes = [value for node in ast.walk(code.function("generate_samples")) if isinstance(node, ast.Dict)
                for key, value in zip(node.keys, node.values) if getattr(key, "value", None) == "gen_prefix"]
    if len(prefixes) != 1 or not isinstance(prefixes[0], ast.IfExp):
        raise code.missing("pair of answer prefixes")
    prefix_one, prefix_many = (code.filled(node, "type_needle_v", "query")
                               for node in (prefixes[0].body, prefixes[0].orelse))
    return {
        "noise": {"line": doubled(code.constant("haystack", code.function("get_haystack")))},
        "niah": {"needle": code.constant("NEEDLE"), "input": many, "answer_prefix": prefix(prefix_many),
                 "input_one": one, "answer_prefix_one": prefix(prefix_one)}
    }


def of_vt(folder):
    code = File(folder, "vt_utils.py")
    lines = [node for node in ast.walk(code.function("generate_chains")) if isinstance(node, ast.JoinedStr)]
    if len(lines) != 2:
        raise code.missing("pair of assignments")
    lines.sort(key=lambda node: node.lineno)
    text, answer = code.config("template", "answer_prefix")
    # in the worked example another blank follows the prefix, and three empty lines follow the answers
    return {"vt": {"first": code.filled(lines[0], "name", "value").strip(),
                   "next": code.filled(lines[1], "name", "from").strip(), "input": text,
                   "answer_prefix": prefix(answer.replace("{num_v}", "{count}")),
                   "example": "{input}{answer_prefix}" + answer[len(answer.rstrip()):] +
                              " {answers}\n\n\n\n"}}


def of_lists(folder):
    common, frequent = File(folder, "cwe_utils.py"), File(folder, "fwe_utils.py")
    text, answer = common.config("template", "answer_prefix")
    frequent_text, frequent_answer = frequent.config("template", "answer_prefix")
    return {"cwe": {"input": text, "answer_prefix": prefix(answer),
                    "example": "{input}{answer_prefix}{answers}\n"},
            "fwe": {"input": frequent_text, "answer_prefix": prefix(frequent_answer)}}


def of_qa(folder):
    code = File(folder, "qa_utils.py")
    text, answer = code.config("template", "answer_prefix")
    return {"qa": {"document": code.constant("DOCUMENT_PROMPT"), "input": text,
                   "answer_prefix": prefix(answer)}}


def main():
    handle_signals()
    parser = Arguments(prog="ruler-words.py", description=__doc__, allow_abbrev=False,
                       formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="FILE", default="-",
                        help="write to this file, not to standard output")
    given = parser.parse_args()
    found = importlib.util.find_spec("lm_eval")
    if not found or not found.submodule_search_locations:
        raise Failure(UNAVAILABLE, "lm-eval is not installed: pip install --no-deps lm-eval")
    folder = os.path.join(list(found.submodule_search_locations)[0], "tasks", "ruler")
    template = {**of_niah(folder), **of_vt(folder), **of_lists(folder), **of_qa(folder)}
    with Output(given.output) as out:
        out.write(json.dumps(template, indent=2, ensure_ascii=False).encode() + b"\n")


if __name__ == "__main__":
    hold_standard_descriptors()
    run("ruler-words.py", main)
