#!/bin/sh
# Compares the simulator with a real fleet on this machine: a gateway and three workers of polly serve a trace, the cost of
# a pass is fitted to their passes of two other traces, one before and one after it, so that a machine that becomes slower or
# faster meanwhile is averaged, and parley sim truth simulates the same. It fails where the two are too far apart.
#
#   test/sim-truth.sh PARLEY [SECONDS]      SECONDS of the trace, 600 if none are given; half as much again fits the passes
#
# The first trace is compared, too, as soon as it was served; that table decides nothing.
# MODEL is polly, or polly=FILE for a program without it. KEEP=DIRECTORY keeps the traces, logs and reports there.
# The machine should do nothing else: a pass that waits for a processor takes longer than the simulator can know.
# Speculation is off, because it is not simulated.
set -eu
parley=$(realpath "$1")
seconds=${2:-600}
rate=${RATE:-1}
calibrate=$((seconds / 4))
[ "$calibrate" -ge 20 ] || calibrate=20
model=${MODEL:-polly}
[ -z "${KEEP:-}" ] || mkdir -p "$KEEP"
dir=${KEEP:-$(mktemp -d)}
pids=
cleanup() {
	for pid in $pids; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	[ -n "${KEEP:-}" ] || rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# trace SEED SECONDS writes a trace in Mooncake's format: conversations of one to four turns behind six system prompts,
# at random times. Lengths are 16 times those that are replayed.
trace() {
	awk -v seed="$1" -v seconds="$2" -v rate="$rate" 'BEGIN {
		srand(seed); at = 0; fresh = seed * 1000000; talks = 0
		while ((at += -log(1 - rand()) / rate) < seconds) {
			turn = 0
			if (talks > 8 && rand() < 0.6) {
				pick = int(rand() * 8) + talks - 8
				turn = turns[pick]
			}
			if (turn == 0 || turn >= 4) {
				pick = talks++; system_prompt = int(rand() * 6) + 1
				ids[pick] = ""; blocks[pick] = 0; turns[pick] = 0
				for (i = 0; i < 6; i++) { ids[pick] = ids[pick] (i ? "," : "") seed * 1000 + system_prompt * 10 + i; blocks[pick]++ }
			}
			for (i = int(rand() * 4) + 1; i > 0; i--) { ids[pick] = ids[pick] "," fresh++; blocks[pick]++ }
			turns[pick]++
			printf "{\"timestamp\":%d,\"input_length\":%d,\"output_length\":%d,\"hash_ids\":[%s]}\n", at * 1000, \
				blocks[pick] * 512 - int(rand() * 400), 160 + int(rand() * 960), ids[pick]
		}
	}'
}
trace 4 10 >"$dir/warm-up.jsonl" # the first passes of a worker fault its weights in
trace 1 "$calibrate" >"$dir/before.jsonl"
trace 2 "$seconds" >"$dir/truth.jsonl"
trace 3 "$calibrate" >"$dir/after.jsonl"

port=${PORT:-18431}
export PARLEY_WORKER_KEY=${PARLEY_WORKER_KEY:-sim-truth-workers}
settings="--model $model --kv-tokens 65536 --seqs 128 --step-tokens 512 --speculate off"
set -- serve --addr "127.0.0.1:$port" --data "$dir/gateway" --model "$model"
for i in 1 2 3; do
	# shellcheck disable=SC2086 # one word each
	"$parley" worker --addr "127.0.0.1:$((port + i))" --data "$dir/w$i" $settings --log-level debug --log-format json \
		>"$dir/worker-$i.log" 2>&1 &
	pids="$pids $!"
	set -- "$@" --worker "http://127.0.0.1:$((port + i))"
done
"$parley" "$@" >"$dir/gateway.log" 2>&1 &
pids="$pids $!"
ready() { "$parley" fleet status --url "http://127.0.0.1:$port" >"$dir/ready" 2>&1 && [ "$(grep -cw up "$dir/ready")" -ge 3 ]; }
for _ in $(seq 120); do
	if ready; then break; fi
	sleep 1
done
ready || { echo "the fleet did not start:" >&2; cat "$dir/ready" "$dir"/*.log >&2; exit 1; }

# serve NAME SECONDS replays a trace, and keeps what the workers logged meanwhile.
serve() {
	echo "Serving $2 s of trace $1 (load average $(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo unknown))" >&2
	for i in 1 2 3; do wc -l <"$dir/worker-$i.log" >"$dir/lines-$i"; done
	"$parley" bench --url "http://127.0.0.1:$port/v1" --trace "$dir/$1.jsonl" --scale 0.0625 --send ids --out "$dir/$1.json" \
		>"$dir/$1.txt" 2>&1 || {
		cat "$dir/$1.txt" >&2
		exit 1
	}
	for i in 1 2 3; do tail -n "+$(($(cat "$dir/lines-$i") + 1))" "$dir/worker-$i.log" >"$dir/$1-$i.log"; done
}
# compare NAME SECONDS simulates a trace that was served.
compare() {
	cat >"$dir/$1.yaml" <<EOF
name: $1
duration: $(($2 + 1))s
pools:
  - workers: 3
    calibration: polly.json
    blocks: 4096
    seqs: 128
    step_tokens: 512
traffic:
  - name: trace
    replay: {file: $1.jsonl, format: mooncake, scale: 0.0625}
EOF
	"$parley" sim truth "$dir/$1.yaml" "$dir/$1.json" --log "$dir/$1-1.log,$dir/$1-2.log,$dir/$1-3.log"
}
before=$dir/before-1.log,$dir/before-2.log,$dir/before-3.log
after=$dir/after-1.log,$dir/after-2.log,$dir/after-3.log
serve warm-up 10
serve before "$calibrate"
"$parley" bench calibrate --log "$before" --report "$dir/before.json" --out "$dir/polly.json"
compare before "$calibrate" || true
serve truth "$seconds"
serve after "$calibrate"
"$parley" bench calibrate --log "$before,$after" --report "$dir/before.json,$dir/after.json" --out "$dir/polly.json"
compare truth "$seconds"
