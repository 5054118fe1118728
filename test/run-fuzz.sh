#!/usr/bin/env bash
# Runs every fuzz target for the time given, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10m}
grep -rlE --include='*_test.go' '^func Fuzz' . | grep -v node_modules | while read -r file; do
	grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | awk '{print $2}' | while read -r target; do
		echo "== $(dirname "$file") $target"
		go -C "$(dirname "$file")" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x .
	done
done
