#!/bin/sh
# Compiles the kernels of testdata to PTX; needs clang 19 and nothing of NVIDIA's.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/testdata"
[ ! -x ../../../test/need-clang.sh ] || ../../../test/need-clang.sh
for source in *.cu; do
	arch=sm_80
	grep -q 'needs sm_90a' "$source" && arch=sm_90a
	clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=$arch -nocudainc -nocudalib -O3 -S \
		-Xclang -target-feature -Xclang +ptx83 "$source" -o "${source%.cu}.ptx"
done
cat -- *.cu device.h ../generate.sh *.ptx | sha256sum | cut -d' ' -f1 >SUM
