#!/usr/bin/env bash
# Starts the server and measures the time until it answers. The bar: 3 seconds.
set -euo pipefail
bin=${1:?the parley binary}
dir=$(mktemp -d)
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
began=$(date +%s%N)
"$bin" serve --addr 127.0.0.1:0 --data "$dir" 2>"$dir/log" &
pid=$!
until url=$(grep -oE 'ready on http://[0-9.:]+' "$dir/log" | cut -d' ' -f3) && [ -n "$url" ]; do
	kill -0 "$pid" || { cat "$dir/log"; exit 1; }
	sleep 0.01
done
took=$((($(date +%s%N) - began) / 1000000))
[ "$took" -le 3000 ] && verdict="met   " || verdict="MISSED"
echo "$verdict  ready after $took ms, bar 3000"
[ "$took" -le 3000 ]
