"""Writes cases.json: small templates with what Python's jinja2 makes of them.

Run with jinja2 3.1.6 installed:  python3 make_cases.py > cases.json

The environment is the one transformers builds for chat templates, except
that the clock stands still. A case is [template, {"ok": text} or
{"err": message}]; all cases share the variables of CONTEXT.
"""

import copy
import datetime
import json
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 1, 2, 0, 0, 0)

CONTEXT = {
    "s": "Hello World",
    "uni": "Ünïcödé 日本語 😀",
    "multi": "line one\n  line two\n\nline four\n",
    "quote": "it's \"quoted\" <b>&amp;</b>\\",
    "empty": "",
    "none": None,
    "yes": True,
    "no": False,
    "i": 7,
    "neg": -7,
    "big": 123456789012345678901234567890,
    "f": 2.5,
    "tiny": 0.00001234,
    "huge": 1e22,
    "l": [3, 1, 2],
    "strs": ["b", "A", "c", "a"],
    "mixed": [1, "two", 3.0, None, True, [1, 2], {"k": "v"}],
    "el": [],
    "d": {"b": 1, "a": 2, "C": {"x": [1, {"y": None}]}},
    "ed": {},
    "keys": {"items": "I", "keys": "K", "get": "G", "_private": "P", "a b": "sp"},
    "users": [
        {"name": "bob", "age": 30, "city": "Rome", "tags": ["x", "y"]},
        {"name": "Alice", "age": 25, "city": "Oslo", "tags": []},
        {"name": "carol", "age": 30, "city": "rome", "tags": ["z"]},
        {"name": "Dave", "age": 41, "city": "Oslo"},
    ],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
    ],
    "tree": [{"n": "a", "c": [{"n": "b", "c": [{"n": "d", "c": []}]}, {"n": "e", "c": []}]}, {"n": "f", "c": []}],
}


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: NOW.strftime(fmt)
    return env


def outcome(source):
    try:
        return {"ok": environment().from_string(source).render(**copy.deepcopy(CONTEXT))}
    except Exception as error:  # every refusal is a result
        return {"err": f"{type(error).__name__}: {error}"[:200]}


def read_sources(path):
    """One expression per line; blocks between lines of === are whole templates."""
    sources, block = [], None
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line == "===":
            if block is not None:
                sources.append("\n".join(block))
            block = [] if block is None else None
        elif block is not None:
            block.append(line)
        elif line and not line.startswith("##"):
            sources.append("{{ " + line + " }}")
    return sources


if __name__ == "__main__":
    sources = read_sources(sys.argv[1] if len(sys.argv) > 1 else "sources.txt")
    cases = [[source, outcome(source)] for source in sources]
    out = {"context": CONTEXT, "cases": cases}
    json.dump(out, sys.stdout, ensure_ascii=False, indent=0)
    print()
