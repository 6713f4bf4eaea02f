"""chat.py TOKENIZER -- turns chats into questions for rf-tokenize --prompt-key prompt --answer-key answer.

Reads lines {"messages": [{"role": "user", "content": ".."}, ..]}.  Writes lines {"prompt": "..",
"answer": ".."} by the chat template of the tokenizer in the folder TOKENIZER, with Python's transformers.
The answer is the last message if the assistant says it; other lines have no answer.  The end token after
the answer is left out, because rf-tokenize adds it.
"""
import json
import sys

from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
for number, line in enumerate(sys.stdin, 1):
    messages = json.loads(line)["messages"]
    asked = messages[:-1] if messages[-1]["role"] == "assistant" else messages
    prompt = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    question = {"prompt": prompt}
    if asked is not messages:
        whole = tokenizer.apply_chat_template(messages, tokenize=False)
        if not whole.startswith(prompt):
            sys.exit(f"chat.py: line {number}: the template changes the prompt when an answer follows")
        answer = whole[len(prompt):].rstrip("\n")
        question["answer"] = answer.removesuffix(tokenizer.eos_token or "")
    print(json.dumps(question, ensure_ascii=False))
