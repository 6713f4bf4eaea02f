"""chat.py TOKENIZER -- turns chats into questions for rf-tokenize --prompt-key prompt --answer-key answer.

Reads lines {"messages": [{"role": "user", "content": ".."}, ..]} and skips blank lines.  Writes lines
{"prompt": "..", "answer": ".."} by the chat template of the tokenizer in TOKENIZER, a folder as Python's
transformers has it, or a run.  The answer is the last message if the assistant says it; other lines have no
answer.  The end token after the answer is left out, because rf-tokenize adds it.
"""
import json
import os
import signal
import sys


def fail(status, why):
    """Ends the program with one line."""
    print("chat.py: " + " ".join(str(why).split()), file=sys.stderr)
    sys.exit(status)


def open_tokenizer(path):
    """Returns the tokenizer of a folder, or of the newest step of a run."""
    folder = os.path.join(path, "latest") if os.path.islink(os.path.join(path, "latest")) else path
    if not os.path.isdir(folder):
        fail(66, f"{path}: there is no such folder")
    # transformers warns about PyTorch, which a tokenizer does not need
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    try:
        from transformers import AutoTokenizer
    except ImportError as e:
        fail(69, f"Python's transformers cannot be loaded: {e}")
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as e:  # transformers has an exception of its own for each kind of failure
        fail(78, f"{path}: transformers cannot read the tokenizer: {e}")
    if not tokenizer.chat_template:
        fail(78, f"{path}: the tokenizer has no chat template (tokenizer_config.json or chat_template.jinja)")
    return tokenizer


def read_messages(line):
    """Returns the messages of a line; raises ValueError."""
    try:
        chat = json.loads(line.rstrip())
    except json.JSONDecodeError as e:
        raise ValueError(f"not JSON: {e.msg} at column {e.colno}") from None
    messages = chat.get("messages") if isinstance(chat, dict) else None
    if not isinstance(messages, list) or not messages:
        raise ValueError("there is no list 'messages' with a message")
    if not all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages):
        raise ValueError("a message is not an object with a 'role' that is a text")
    return messages


def question_of(tokenizer, messages):
    """Returns the prompt of a chat, and its answer if there is one; raises ValueError."""
    asked = messages[:-1] if messages[-1]["role"] == "assistant" else messages
    if not asked:
        raise ValueError("the assistant's message answers no message")
    try:
        prompt = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template(messages, tokenize=False)
    except Exception as e:  # a template may raise anything
        raise ValueError(f"the chat template fails: {e}") from None
    if asked is messages:
        return {"prompt": prompt}
    if not whole.startswith(prompt):
        raise ValueError("the template changes the prompt when an answer follows")
    answer = whole[len(prompt):].rstrip("\n")
    return {"prompt": prompt, "answer": answer.removesuffix(tokenizer.eos_token or "")}


def main():
    if len(sys.argv) != 2:
        fail(64, "usage: chat.py TOKENIZER <chats.jsonl >questions.jsonl")
    tokenizer = open_tokenizer(sys.argv[1])
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.reconfigure(encoding="utf-8")
    number = 0
    try:
        for number, line in enumerate(sys.stdin.buffer, 1):
            if line.strip():
                print(json.dumps(question_of(tokenizer, read_messages(line.decode())), ensure_ascii=False))
        sys.stdout.flush()
    except (ValueError, RecursionError) as e:  # also of bytes that are not UTF-8
        fail(65, f"line {number}: {e}")
    except OSError as e:
        sys.stdout = None  # nothing is tried again at the end
        fail(74, e)


main()
