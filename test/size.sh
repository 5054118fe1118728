#!/usr/bin/env bash
# Prints how large a released program is without the models inside it. The bar: 40 MB.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:?the program, built as make release does}
all=$(wc -c <"$bin")
models=$(cat internal/builtin/*.gguf | wc -c)
rest=$((all - models))
[ "$rest" -le 40000000 ] && verdict="met   " || verdict="MISSED"
echo "$verdict  $bin: $all bytes, models $models, the rest $rest, bar 40000000"
[ "$rest" -le 40000000 ]
