#!/usr/bin/env bash
# Packs the PTX of ../ptx into ../packed for the program: modules that resemble each other in one file, the
# names and sizes first. The window of the compressor is larger than each file. Needs xz.
set -euo pipefail
cd "$(dirname "$0")/../ptx"
export LC_ALL=C
command -v xz >/dev/null || { echo "pack.sh: xz is missing: install xz-utils" >&2; exit 1; }
rm -rf ../packed
mkdir ../packed
for group in attend linear other; do
	case $group in
	other) files=$(ls -- *.ptx | grep -v '^attend_\|^linear_') ;;
	*) files=$(ls -- "$group"_*.ptx) ;;
	esac
	{
		wc -c $files | grep -v ' total$' | awk '{ printf "%s %d\n", $2, $1 } END { print "" }'
		cat $files
	} | xz --format=lzma --lzma1=preset=9e,dict=16MiB,lc=4,pb=0 --threads=1 >"../packed/$group.lzma"
done
