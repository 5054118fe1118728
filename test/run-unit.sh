#!/usr/bin/env bash
# Runs the Go tests and names every test that was skipped, with its reason.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
test/need-redis.sh
# `make check` has vetted all packages and their tests. Without symbols and debugging information, which no test reads,
# linking costs less than half.
# The compiler and the linker end soon, so they collect garbage seldom; the tests run as programs do.
GOGC=400 test/postgres.sh go test -vet=off -ldflags=-s -exec 'env -u GOGC' -timeout 15m -v ./... >"$log" 2>&1 || status=$?
if [ "$status" -ne 0 ]; then
	grep -vE '^(=== |    --- (PASS|SKIP)|--- PASS|ok  |\?  |PASS$)' "$log" || true
fi
grep -E '^(ok  |FAIL|---? FAIL)' "$log" || true
skipped=$(grep -cE '^ *--- SKIP' "$log" || true)
if [ "$skipped" -gt 0 ]; then
	echo "skipped tests and why:"
	awk '/^=== (RUN|NAME|CONT)/ { at = $3 } /^ +[a-z0-9_]+_test\.go:/ { said[at] = $0 } /^ *--- SKIP/ { print "  " $3 ":" said[$3] }' "$log"
fi
echo "$(grep -cE '^ *--- PASS' "$log" || true) passed, $(grep -cE '^ *--- FAIL' "$log" || true) failed, $skipped skipped"
exit "$status"
