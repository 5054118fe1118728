#!/usr/bin/env bash
# The race detector links against C. Makes sure that there is a compiler.
set -eu
command -v gcc >/dev/null || command -v clang >/dev/null || {
	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
		apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev
	else
		echo "the race detector needs a C compiler: install gcc" >&2
		exit 1
	fi
}
