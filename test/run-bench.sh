#!/usr/bin/env bash
# Prints tokenizer MB/s, and tokens/s of polly and of a 1B-shaped random model.
# The results also go to bench/, with machine and commit.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:?the parley binary}
time=${2:-1s}
model=bin/llama-1b-q8_0.gguf
[ -f "$model" ] || "$bin" model random --shape llama-1b --quant q8_0 "$model"
mkdir -p bench
out=bench/$(date -u +%Y-%m-%d)-cpu.txt
{
	echo "# $("$bin" version)"
	echo "# $(uname -sm), $(grep -m1 'model name' /proc/cpuinfo 2>/dev/null | cut -d: -f2- | sed 's/^ *//' || sysctl -n machdep.cpu.brand_string), $(getconf _NPROCESSORS_ONLN) processors"
	echo "## tokenizers (one core)"
	go test -run '^$' -bench 'Encode' -cpu 1 -benchtime "$time" ./token
	echo "## models (all cores)"
	PARLEY_BENCH_MODEL=$PWD/$model go test -run '^$' -bench . -benchtime "$time" -timeout 30m ./worker/host
} | tee "$out"
echo "kept in $out"
