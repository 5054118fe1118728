#!/usr/bin/env bash
# Measures what the parts of `make test` cost in processor time.
#
#   timed.sh start             begins a new account
#   timed.sh part NAME CMD...  runs CMD and books its user and system time on NAME
#   timed.sh report [BAR]      prints the account; exits 1 if it is above BAR seconds
#
# A child that a command starts and does not wait for is not counted.
set -uo pipefail
cd "$(dirname "$0")/.."
account=bin/test-times.txt
mkdir -p bin
verb=${1:?start, part or report}
shift
case $verb in
start)
	: >"$account"
	;;
part)
	name=$1
	shift
	log=$(mktemp)
	status=0
	TIMEFORMAT='%U %S %R'
	{ time "$@" 2>&3; } 3>&2 2>"$log" || status=$?
	awk -v name="$name" '{ printf "%.0f %.0f %s\n", $1 + $2, $3, name }' "$log" >>"$account"
	rm -f "$log"
	exit "$status"
	;;
report)
	awk -v bar="${1:-0}" '
		BEGIN { printf "%-24s %10s %10s\n", "part", "cpu", "wall" }
		{ printf "%-24s %9d s %9d s\n", $3, $1, $2; cpu += $1; wall += $2 }
		END {
			printf "%-24s %9d s %9d s\n", "all", cpu, wall
			if (bar > 0) {
				printf "%s  %.1f minutes of processor time, bar %.0f\n", (cpu <= bar ? "met   " : "MISSED"), cpu / 60, bar / 60
				exit cpu > bar
			}
		}' "$account"
	;;
*)
	echo "timed.sh: no verb $verb" >&2
	exit 2
	;;
esac
