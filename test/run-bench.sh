#!/usr/bin/env bash
# Prints tokenizer MB/s, the time until the server is ready, and tokens/s of
# polly and of a 1B-shaped random model. The results are kept in bench/results, with
# machine and commit. Exits non-zero when a bar is missed.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:?the parley binary}
time=${2:-1s}
model=bin/llama-1b-q8_0.gguf
[ -f "$model" ] || "$bin" model random --shape llama-1b --quant q8_0 "$model"
mkdir -p bench/results
out=bench/results/$(date -u +%Y-%m-%d)-cpu.txt

machine() {
	echo "$(uname -sm), $(grep -m1 'model name' /proc/cpuinfo 2>/dev/null | cut -d: -f2- | sed 's/^ *//' || sysctl -n machdep.cpu.brand_string), $(getconf _NPROCESSORS_ONLN) processors"
}

missed=bin/missed
rm -f "$missed"
{
	echo "# $("$bin" version), commit $(git rev-parse --short=12 HEAD)$(git diff --quiet HEAD || echo ' with changes')"
	echo "# $(machine)"
	echo "## ready"
	test/ready.sh "$bin" || touch "$missed"
	echo "## tokenizers, one core"
	go test -run '^$' -bench 'Encode' -cpu 1 -benchtime "$time" ./token | tee bin/tokenizers.txt || touch "$missed"
	awk -f test/bars.awk bin/tokenizers.txt || touch "$missed"
	echo "## models, all cores"
	PARLEY_BENCH_MODEL=$PWD/$model go test -run '^$' -bench . -benchtime "$time" -timeout 30m ./worker/host || touch "$missed"
} | tee "$out"
echo "kept in $out"
[ ! -e "$missed" ] || { echo "a bar was missed" >&2; exit 1; }
