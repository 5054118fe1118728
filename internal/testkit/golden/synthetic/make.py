"""Makes the reference outputs beside this file with Hugging Face transformers.

Each model's weights are a formula of tensor name and index (see weight()), so
that no weight file is kept: the tests make the same weights from the tensor
list in golden.json. Run: python3 make.py OUT
"""
import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

MASK = (1 << 64) - 1


def fnv1a(text):
    h = 0xCBF29CE484222325
    for b in text.encode():
        h = ((h ^ b) * 0x100000001B3) & MASK
    return h


def uniform(name, count):
    """count numbers in [-1, 1): splitmix64 of (hash of name) + index."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a(name)) + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1.0


def weight(name, shape, kind):
    u = uniform(name, int(np.prod(shape)))
    if kind == "norm":
        v = 1 + 0.3 * u
    elif kind == "norm0":
        v = 0.3 * u
    elif kind == "bias":
        v = 0.3 * u
    elif kind == "embed":
        v = u
    else:
        v = u * 1.7 * np.sqrt(3.0 / shape[-1])
    return torch.from_numpy(v.astype(np.float32)).reshape(shape).to(torch.bfloat16)


def kind_of(name, gemma):
    if name.endswith(".bias"):
        return "bias"
    if "norm" in name:
        return "norm0" if gemma else "norm"
    if "embed_tokens" in name:
        return "embed"
    return "matrix"


COMMON = dict(vocab_size=512, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, max_position_embeddings=512, bos_token_id=0, eos_token_id=2,
              pad_token_id=0, initializer_range=0.02)

CASES = {
    "llama2": dict(model_type="llama", **{**COMMON, "num_key_value_heads": 4}, rms_norm_eps=1e-5, tie_word_embeddings=False,
                   rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    "llama-linear": dict(model_type="llama", **COMMON, rms_norm_eps=1e-5, tie_word_embeddings=True,
                         rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)),
    "llama-bias": dict(model_type="llama", **COMMON, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                       rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    "llama-yarn": dict(model_type="llama", **COMMON, rms_norm_eps=1e-5, tie_word_embeddings=True,
                       rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128)),
    "mistral": dict(model_type="mistral", **COMMON, rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=24,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    "mistral-full": dict(model_type="mistral", **COMMON, rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=None,
                         rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
    "qwen2-window": dict(model_type="qwen2", **COMMON, rms_norm_eps=1e-6, tie_word_embeddings=True, use_sliding_window=True,
                         sliding_window=20, max_window_layers=1,
                         rope_parameters=dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=128)),
    "qwen3": dict(model_type="qwen3", **{**COMMON, "head_dim": 32}, rms_norm_eps=1e-6, tie_word_embeddings=False,
                  rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
    "qwen3-moe": dict(model_type="qwen3_moe", **COMMON, rms_norm_eps=1e-6, tie_word_embeddings=False, num_experts=8,
                      num_experts_per_tok=3, moe_intermediate_size=32, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[1],
                      rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
    "qwen3-moe-raw": dict(model_type="qwen3_moe", **COMMON, rms_norm_eps=1e-6, tie_word_embeddings=False, num_experts=4,
                          num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[],
                          rope_parameters=dict(rope_type="default", rope_theta=1000000.0)),
    "gemma3": dict(model_type="gemma3_text", **{**COMMON, "num_hidden_layers": 7, "num_key_value_heads": 1}, rms_norm_eps=1e-6,
                   sliding_window=20, query_pre_attn_scalar=24, tie_word_embeddings=True),
    "gemma3-linear": dict(model_type="gemma3_text", **{**COMMON, "num_hidden_layers": 7}, rms_norm_eps=1e-6,
                          sliding_window=20, query_pre_attn_scalar=16, tie_word_embeddings=True,
                          rope_parameters={"full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
                                           "sliding_attention": dict(rope_type="default", rope_theta=10000.0)}),
}


def outputs(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
        logprobs = torch.log_softmax(logits, -1)
        greedy, margin, past, cur = [], 1e9, None, torch.tensor([ids])
        for _ in range(24):
            step = model(cur).logits[0, -1]
            top = torch.topk(step, 2).values
            margin = min(margin, float(top[0] - top[1]))
            greedy.append(int(step.argmax()))
            cur = torch.cat([cur, torch.tensor([[greedy[-1]]])], 1)
    tops = torch.topk(logits, 2, -1).values
    margin = min(margin, float((tops[:, 0] - tops[:, 1]).min()))
    return margin, dict(
        ids=ids, last_logits=[round(float(x), 5) for x in logits[-1]], argmax_per_position=[int(x) for x in logits.argmax(-1)],
        prompt_logprobs=[round(float(logprobs[i, t]), 5) for i, t in enumerate(ids[1:])], greedy_ids=greedy)


def main(out):
    torch.manual_seed(0)
    for case, settings in CASES.items():
        settings = dict(settings)
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        config._attn_implementation = "eager"
        tmp = os.path.join("/tmp", "synthetic", case)
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(tmp)
        path = os.path.join(tmp, "model.safetensors")
        tensors, listing = {}, []
        with safe_open(path, "pt") as f:
            for name in sorted(f.keys()):
                shape = list(f.get_slice(name).get_shape())
                kind = kind_of(name, "gemma" in case)
                tensors[name] = weight(name, shape, kind)
                listing.append(dict(name=name, shape=shape, kind=kind))
        save_file(tensors, path, metadata={"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(tmp, dtype=torch.float32, attn_implementation="eager").eval()
        got = dict(model.named_parameters())
        rng = np.random.default_rng(7)
        prompts = []
        for length in (1, 5, 17, 40, 90):
            best = None
            for _ in range(40):
                ids = [int(x) for x in rng.integers(3, 512, length)]
                margin, p = outputs(model, ids)
                if best is None or margin > best[0]:
                    best = (margin, p)
                if margin > 0.02:
                    break
            prompts.append(best[1])
            print(case, length, "smallest margin", round(best[0], 5), flush=True)
        os.makedirs(os.path.join(out, case), exist_ok=True)
        with open(os.path.join(tmp, "config.json")) as f:
            cfg = f.read()
        with open(os.path.join(out, case, "config.json"), "w") as f:
            f.write(cfg)
        with open(os.path.join(out, case, "golden.json"), "w") as f:
            json.dump(dict(arch=case, made_with=f"transformers {transformers.__version__}, weights bf16, arithmetic float32",
                           tensors=listing, prompts=prompts), f)


main(sys.argv[1])
