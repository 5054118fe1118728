#!/usr/bin/env bash
# Runs a command with a PostgreSQL of its own: PARLEY_TEST_POSTGRES is its
# address, PARLEY_TEST_POSTGRES_CTL a program that passes its arguments to
# pg_ctl (such as restart -m immediate). The cluster lies in a temporary
# directory, is reached by a Unix socket in it, and is gone afterwards.
# Where PARLEY_TEST_POSTGRES is set already, the command simply runs.
# Installs PostgreSQL where it is missing and this is root on Debian or Ubuntu.
set -euo pipefail
[ -z "${PARLEY_TEST_POSTGRES:-}" ] || exec "$@"

find_bin() {
	local dir
	command -v initdb >/dev/null && command -v pg_ctl >/dev/null && { dirname "$(readlink -f "$(command -v initdb)")"; return; }
	for dir in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin; do
		[ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ] && { echo "$dir"; return; }
	done
	return 1
}
bin=$(find_bin) || {
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "the tests of the conversation store need PostgreSQL's initdb and pg_ctl: install it, for example with: apt-get install postgresql; or set PARLEY_TEST_POSTGRES to the address of a database for tests" >&2
		exit 1
	fi
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >&2
	bin=$(find_bin)
}

dir=$(mktemp -d /tmp/parley-pg.XXXXXX)
as=""
if [ "$(id -u)" -eq 0 ]; then # PostgreSQL refuses to run as root
	user=nobody
	! id postgres >/dev/null 2>&1 || user=postgres
	chown "$user" "$dir"
	as="runuser -u $user --"
	command -v runuser >/dev/null || as="setpriv --reuid=$user --clear-groups --"
fi
cat >"$dir/ctl" <<END
#!/bin/sh
cd "$dir" && exec $as "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w -t 60 "\$@"
END
chmod 755 "$dir/ctl"
cleanup() {
	"$dir/ctl" stop -m immediate >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

started() {
	(cd "$dir" && $as "$bin/initdb" -D "$dir/data" -U parley -A trust -E UTF8 --locale=C) &&
		printf "listen_addresses = ''\nunix_socket_directories = '%s'\n" "$dir" >>"$dir/data/postgresql.conf" &&
		"$dir/ctl" start
}
started >"$dir/start" 2>&1 || {
	echo "PostgreSQL did not start:" >&2
	cat "$dir/start" "$dir/log" >&2 2>/dev/null || true
	exit 1
}
export PARLEY_TEST_POSTGRES="postgres:///postgres?host=$dir&user=parley&sslmode=disable"
export PARLEY_TEST_POSTGRES_CTL="$dir/ctl"
"$@"
