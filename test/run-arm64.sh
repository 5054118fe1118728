#!/usr/bin/env bash
# Runs the tests of the processor backend, and of the models on it, for arm64
# under emulation: once on a processor with all of its instructions, and what
# shows that the right path is chosen on one without dot products.
# Installs the emulator where it is missing and this is root on Debian or Ubuntu.
set -euo pipefail
cd "$(dirname "$0")/.."
find_qemu() { command -v qemu-aarch64-static || command -v qemu-aarch64; }
qemu=$(find_qemu) || {
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "the tests for arm64 need an emulator: install qemu-user-static" >&2
		exit 1
	fi
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user-static >&2
	qemu=$(find_qemu)
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for package in compute/cpu model; do
	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go test -c -o "$dir/$(basename "$package").test" "./$package"
done

# run PACKAGE PROCESSOR PATH TESTS runs tests in their package's directory.
run() {
	echo "$1 on $2, path $3"
	(cd "$1" && PARLEY_TEST_BEST_PATH=$3 "$qemu" -cpu "$2" "$dir/$(basename "$1").test" -test.timeout 120m -test.run "$4")
}
run compute/cpu max neon .
run model max neon 'FastMatchesGolden$'
run compute/cpu cortex-a53 plain 'BestPath|TestLogits|TestGatedMLP'
run model cortex-a53 plain 'FastMatchesGolden$/tiny-llama'
