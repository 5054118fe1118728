"""Makes small tokenizers of many kinds with Hugging Face tokenizers, and for each
the ids and decoded text of nasty random strings. Run: python3 make.py CORPUS OUT
"""
import gzip
import json
import os
import random
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

Split, Seq = pre_tokenizers.Split, pre_tokenizers.Sequence


def byte_level(*before, prefix=False, use_regex=False):
    return Seq([*before, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)])


def iso(pattern):
    return Split(Regex(pattern), "isolated", False)


def spm_normalizer(prepend=True):
    return normalizers.Sequence(([normalizers.Prepend("▁")] if prepend else []) + [normalizers.Replace(" ", "▁")])


SPM_DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
GEMMA_DECODER = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])

# name: (model options, normalizer, pre-tokenizer, decoder)
KINDS = {
    "gpt2": ({}, None, pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()),
    "gpt2-prefix": ({}, None, pre_tokenizers.ByteLevel(add_prefix_space=True), decoders.ByteLevel()),
    "llama3": (dict(ignore_merges=True), None, byte_level(iso(LLAMA3)), decoders.ByteLevel()),
    "qwen2": ({}, normalizers.NFC(), byte_level(iso(QWEN2)), decoders.ByteLevel()),
    "qwen35": ({}, normalizers.NFC(), byte_level(iso(QWEN35)), decoders.ByteLevel()),
    "o200k": ({}, None, byte_level(iso(O200K)), decoders.ByteLevel()),
    "tekken": (dict(ignore_merges=True), None, byte_level(iso(TEKKEN)), decoders.ByteLevel()),
    "deepseek3": ({}, None, byte_level(iso(r"\p{N}{1,3}"), iso(r"[一-龥぀-ゟ゠-ヿ]+"), iso(DEEPSEEK3)), decoders.ByteLevel()),
    "deepseek-llm": ({}, None, byte_level(iso(r"[\r\n]"), iso(r"\s?\p{L}+"), iso(r"\s?\p{P}+"), iso(r"[一-龥ࠀ-一가-퟿]+"),
                                          pre_tokenizers.Digits(individual_digits=True)), decoders.ByteLevel()),
    "starcoder": ({}, None, Seq([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
                  decoders.ByteLevel()),
    "falcon": ({}, None, Seq([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                              pre_tokenizers.Digits(individual_digits=False), Split(Regex("[0-9][0-9][0-9]"), "isolated", False)]),
               decoders.ByteLevel()),
    "command-r": ({}, normalizers.NFC(), Seq([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
                  decoders.ByteLevel()),
    "llama2": (dict(byte_fallback=True, unk_token="<unk>", fuse_unk=True), spm_normalizer(), None, SPM_DECODER),
    "mistral-metaspace": (dict(byte_fallback=True, unk_token="<unk>", fuse_unk=True), None,
                          pre_tokenizers.Metaspace("▁", "first", False), SPM_DECODER),
    "metaspace-always": (dict(byte_fallback=True, unk_token="<unk>", fuse_unk=True), None,
                         pre_tokenizers.Metaspace("▁", "always", True), decoders.Metaspace("▁", "always", True)),
    "gemma": (dict(byte_fallback=True, unk_token="<unk>", fuse_unk=True), normalizers.Replace(" ", "▁"),
              Split(" ", "merged_with_previous", False), GEMMA_DECODER),
    "nfkc-lower": ({}, normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()]),
                   pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()),
    "removed": ({}, None, byte_level(Split(Regex(r"\s+"), "removed", False)), decoders.ByteLevel()),
    "merged-next": ({}, None, byte_level(Split(Regex(r"\s"), "merged_with_next", False)), decoders.ByteLevel()),
    "inverted": ({}, None, byte_level(Split(Regex(r"\w+"), "isolated", True)), decoders.ByteLevel()),
    "unknown-chars": (dict(unk_token="<unk>", fuse_unk=False), None, pre_tokenizers.Whitespace(), None),
}

ALPHABET = (list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") * 3 + list(" \t\n\r.,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+~`") * 2
            + [" "] * 60 + ["\n"] * 10 + ["'s", "'LL", "'Re", "it's", "ſ", "'ſ", "K", " the ", "Hello", "12345", "   ", "\r\n", "\u00a0", "\u3000", "\u200b",
               "\u2028", "\u0085", "\x1c", "\x00", "é", "e\u0301", "\u0301", "ß", "İ", "ı", "ǅ", "ʰ", "ª", "你好", "世界", "こんにちは", "カタカナ", "안녕", "Привет", "שלום",
               "مرحبا", "नमस्ते", "ไทย", "½", "²", "Ⅷ", "٣", "😀", "👩‍👩‍👧", "🇫🇷", "️", "▁", "▁▁", "Ġ", "�", "\U0001F1E6", "𝔘", "𐐀", "<s>", "</s>", "<unk>",
               "<|im_start|>", "<|im_end|>", " <|im_end|> ", "<|pad|>", "<tool>", "<tool> ", "<0x41>", "<0xFF>", "http://a.b/c?d=e", "snake_case", "camelCase", "XMLHttp"])


def nasty(rng):
    if rng.random() < 0.3:
        return "".join(chr(rng.choice([rng.randrange(0x20, 0x7F), rng.randrange(0x80, 0x800), rng.randrange(0x800, 0xD800),
                                       rng.randrange(0x10000, 0x1FFFF)])) for _ in range(rng.randrange(1, 30)))
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(0, 40)))


def build(kind, corpus):
    options, normalizer, pre, decoder = KINDS[kind]
    tok = Tokenizer(models.BPE(**options))
    if normalizer:
        tok.normalizer = normalizer
    if pre:
        tok.pre_tokenizer = pre
    if decoder:
        tok.decoder = decoder
    special = ["<unk>", "<s>", "</s>"]
    alphabet = [] if options.get("unk_token") else pre_tokenizers.ByteLevel.alphabet()
    if options.get("byte_fallback"):
        special += [f"<0x{b:02X}>" for b in range(256)]
    lines = corpus
    if not pre:
        lines = [w + " " for line in corpus for w in line.split(" ")]
    tok.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=1100, special_tokens=special, initial_alphabet=alphabet, show_progress=False,
                                                       max_token_length=12))
    data = json.loads(tok.to_str())
    if options.get("byte_fallback"):
        data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    tok = Tokenizer.from_str(json.dumps(data))
    tok.add_special_tokens([AddedToken("<|im_start|>", special=True, normalized=False), AddedToken("<|im_end|>", special=True, rstrip=True, lstrip=True, normalized=False)])
    tok.add_tokens([AddedToken("<tool>", normalized=True, rstrip=True), AddedToken("camelCase", single_word=True, normalized=False), AddedToken("\n\n\n", normalized=False)])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tok.token_to_id("<s>"))])
    return tok


def unigram(corpus):
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.decoder = decoders.Metaspace()
    tok.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=900, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False))
    return tok


def main(corpus_path, out):
    with open(corpus_path, encoding="utf-8") as f:
        corpus = [line for line in f.read().split("\n") if line][:6000]
    corpus += ["你好世界 こんにちは カタカナ Привет мир 안녕 naïve café 12345 678 3.14 foo_bar fooBar HTTPServer don't we'll"] * 20
    for kind in [*KINDS, "unigram"]:
        tok = unigram(corpus) if kind == "unigram" else build(kind, corpus)
        rng = random.Random(kind)
        with open(os.path.join(out, kind + ".json"), "w", encoding="utf-8") as f:
            f.write(tok.to_str())
        with gzip.GzipFile(os.path.join(out, kind + ".fuzz.jsonl.gz"), "w", mtime=0) as f:
            for i in range(600):
                text = nasty(rng)
                ids = tok.encode(text, add_special_tokens=False).ids
                row = dict(text=text, ids=ids, decoded=tok.decode(ids, skip_special_tokens=False))
                if i % 10 == 0:
                    row["with_special"] = tok.encode(text).ids
                    row["decoded_skip"] = tok.decode(ids, skip_special_tokens=True)
                f.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
        print(kind, tok.get_vocab_size(), flush=True)


main(sys.argv[1], sys.argv[2])
