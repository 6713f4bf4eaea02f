#!/usr/bin/env python3
"""qwen-peer.py -- makes Qwen3.5 checkpoints by transformers, and compares our values with its values.

    qwen-peer.py make DIR TOKENIZER.json [text]
        saves a tiny Qwen3.5 with its vision part, or only the text model, in bf16, in shards, with the
        tokenizer
    qwen-peer.py compare DIR RECORDS [DIR RECORDS]...
        RECORDS is the output of rf-dump --json after rf-entropy --nll --keep logits and rf-generate with the
        model DIR.  Fails unless transformers loads DIR with no tensor missing or unexpected, has the same ids
        for the text at meta.text, the same logits to 1e-5 of the largest one and the same log-probabilities
        of the tokens to 1e-5, and generates the same ids and text

Exit status 69: transformers, or Qwen3.5 in it, is missing.
"""
import json
import os
import sys

os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
try:
    import torch
    import transformers
    from transformers import Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration
except ImportError as e:
    print(f"qwen-peer.py: {e}", file=sys.stderr)
    sys.exit(69)
transformers.utils.logging.disable_progress_bar()


def make(path, tokenizer, alone):
    text = {"vocab_size": 4032, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
            "linear_value_head_dim": 12, "eos_token_id": 4000, "mamba_ssm_dtype": "float32",
            "tie_word_embeddings": not alone,
            "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"]}
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 24, "num_heads": 2, "patch_size": 4,
              "out_hidden_size": 32, "num_position_embeddings": 16}
    config = Qwen3_5Config(text_config=text, vision_config=vision, tie_word_embeddings=not alone)
    torch.manual_seed(3)
    model = (Qwen3_5ForCausalLM(config.text_config) if alone else Qwen3_5ForConditionalGeneration(config))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.mul_(4)  # far from uniform probabilities, so that rounding changes no greedy token
            elif "norm" in name:
                p.add_(0.2 * torch.randn_like(p))
    model.to(torch.bfloat16).save_pretrained(path, max_shard_size="100KB")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=tokenizer, eos_token="<|endoftext|>")
    fast.save_pretrained(path)


def load(path):
    with open(os.path.join(path, "config.json")) as f:
        alone = json.load(f)["model_type"] == "qwen3_5_text"
    kind = Qwen3_5ForCausalLM if alone else Qwen3_5ForConditionalGeneration
    model, info = kind.from_pretrained(path, dtype=torch.float32, output_loading_info=True)
    if any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")):
        sys.exit(f"{path}: {info}")
    return model.eval()


def compare(path, records):
    model, tokenizer = load(path), transformers.AutoTokenizer.from_pretrained(path)
    worst, worst_nll, written, n = 0.0, 0.0, 0, 0
    with open(records) as f:
        bodies = [m["body"] for m in map(json.loads, f) if m["type"] == "seq"]
    for body in bodies:
        ids = body["tokens"]["data"]
        if tokenizer(body["meta"]["text"])["input_ids"] != ids:
            sys.exit(f"record {body['id']}: transformers has other ids for its text")
        with torch.no_grad():
            theirs = model(torch.tensor([ids])).logits[0]
        ours = torch.tensor(body["logits"]["data"]).reshape(theirs.shape)
        nll = -theirs.double().log_softmax(-1)[range(len(ids) - 1), ids[1:]]
        worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max()))
        worst_nll = max([worst_nll, *(torch.tensor(body["nll"]["data"]) - nll).abs().tolist()])
        length = body["generation"]["length"]["data"][0]
        out = model.generate(torch.tensor([ids]), max_new_tokens=body["generation"]["tokens"]["shape"][1],
                             do_sample=False, pad_token_id=4000)[0, len(ids):].tolist()
        got = body["generation"]["tokens"]["data"][:length]
        text = tokenizer.decode(out, skip_special_tokens=True)
        if out[:length] != got or len(out) != length or text != body["generation"]["text"][0]:
            sys.exit(f"record {body['id']}: {got} {body['generation']['text']}, transformers {out} {text!r}")
        written += length
        n += len(ids)
    print(f"{path}: {len(bodies)} records, {n} tokens: logits {worst:.1e}, nll {worst_nll:.1e}; "
          f"{written} ids written")
    if not bodies or worst > 1e-5 or worst_nll > 1e-5:
        sys.exit("further apart than 1e-5")


if __name__ == "__main__":
    word, args = sys.argv[1], sys.argv[2:]
    if word == "make":
        make(args[0], args[1], args[2:] == ["text"])
    else:
        for pair in zip(args[::2], args[1::2], strict=True):
            compare(*pair)
