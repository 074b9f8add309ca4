#!/usr/bin/env bash
# Builds FlashAttention-3 as one shared library, for `warpsmith bench --baseline fa3` and for time_backward.py.
#
#   build_fa3.sh SOURCE LIBRARY [NAME=VALUE ...]
#
# SOURCE is a checkout of flash-attention with its submodule csrc/cutlass. LIBRARY is the file to write. Needs nvcc (12.3
# or later), g++ and a Python with PyTorch; needs no network and no setup.py. 14 files are compiled, as many at a time as
# there are processors; on 16 processors it takes about two minutes.
#
# The library has what the problems of `warpsmith bench` need: fp16, bf16 and E4M3, head dimensions up to 256 (kernels for
# 64, 96, 128 and 256), fixed lengths. The parts that are left out (gradients, variable lengths, pages, split keys, packed
# groups, windows, soft caps) are other kernels; those that remain are the same as in a full build. A full build would use
# packed groups if several heads share keys and there are few queries. NAME=VALUE:
#   cluster=no   without clusters of two blocks. FlashAttention-3 uses them for 16-bit types, head dimensions of 128 and
#                more and no mask; some shapes are faster without.
#   backward=yes also the gradients, for time_backward.py: 8 more files, several minutes
#   jobs=N       number of compilers at a time
set -euo pipefail

usage() { sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' "$0"; }
if [ $# -lt 2 ]; then usage >&2; exit 2; fi
source=$(cd "$1" && pwd); library=$2; shift 2
cluster=yes; backward=no; jobs=$(nproc)
for option in "$@"; do
    case $option in
        cluster=yes|cluster=no) cluster=${option#*=} ;;
        backward=yes|backward=no) backward=${option#*=} ;;
        jobs=[1-9]*) jobs=${option#*=} ;;
        *) echo "error: unknown option \`$option\`" >&2; usage >&2; exit 2 ;;
    esac
done
hopper=$source/hopper; cutlass=$source/csrc/cutlass/include
for needed in "$hopper/flash_api.cpp" "$cutlass/cutlass/cutlass.h"; do
    if [ ! -e "$needed" ]; then
        echo "error: there is no $needed" >&2
        echo "hint: check out flash-attention with its submodule csrc/cutlass" >&2
        exit 2
    fi
done

python=${WARPSMITH_PYTHON:-python3}
# Include folders of PyTorch and Python, and PyTorch's library folder.
mapfile -t found < <("$python" -c '
import os, sysconfig, torch, torch.utils.cpp_extension as extension
print(" ".join("-I" + path for path in extension.include_paths()), "-I" + sysconfig.get_paths()["include"])
print(os.path.join(os.path.dirname(torch.__file__), "lib"))')
includes=${found[0]}; torch_libraries=${found[1]}

# The version that `bench` shows: that of the package, and the commits: of the checkouts, or from a file COMMIT.
commit() {
    if [ -e "$1/.git" ]; then git -C "$1" rev-parse --short=8 HEAD; else cat "$1/COMMIT" 2>/dev/null || echo unknown; fi
}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$hopper/__init__.py")
version="flash-attention-3 $version, commit $(commit "$source"), CUTLASS $(commit "$source/csrc/cutlass")"
version="$version, nvcc $(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p'), clusters $cluster"

objects=$(mktemp -d); trap 'rm -rf "$objects"' EXIT
disabled="SPLIT PAGEDKV APPENDKV LOCAL SOFTCAP PACKGQA VARLEN HDIM192 HDIMDIFF64 HDIMDIFF192 SM8x"
if [ "$cluster" = no ]; then disabled="$disabled CLUSTER"; fi
if [ "$backward" = no ]; then disabled="$disabled BACKWARD"; fi
flags="-arch=sm_90a -std=c++17 -O3 --use_fast_math --expt-relaxed-constexpr --expt-extended-lambda -DNDEBUG"
# Without the first of these, tiles for head dimensions 128 and 256 are smaller and 1.3 times as slow.
flags="$flags -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DCUTLASS_ENABLE_GDC_FOR_SM90"
flags="$flags -D_GLIBCXX_USE_CXX11_ABI=1 -Xcompiler -fPIC,-w -w -I$cutlass -I$hopper $includes"
for part in $disabled; do flags="$flags -DFLASHATTENTION_DISABLE_$part"; done

started=$SECONDS
{
    # The slowest first.
    for head_dim in 256 128 96 64; do
        for type in $([ "$backward" = no ] || echo fp16 bf16); do
            echo "$hopper/instantiations/flash_bwd_hdim${head_dim}_${type}_sm90.cu"
        done
        for type in fp16 bf16 e4m3; do echo "$hopper/instantiations/flash_fwd_hdim${head_dim}_${type}_sm90.cu"; done
    done
    echo "$hopper/flash_api.cpp"
    echo "$hopper/flash_prepare_scheduler.cu"
} | FLAGS=$flags OBJECTS=$objects xargs -P "$jobs" -I{} bash -c '
    object=$OBJECTS/$(basename {})
    nvcc $FLAGS -c {} -o "$object.o" > "$object.log" 2>&1 || echo {} >> "$OBJECTS/failed"'
if [ -e "$objects/failed" ]; then
    while read -r file; do
        echo "error: $file does not compile" >&2
        tail -n 20 "$objects/$(basename "$file").log" >&2
    done < "$objects/failed"
    exit 1
fi

printf 'extern "C" const char* warpsmith_peer_version() { return "%s"; }\n' "$version" > "$objects/version.cpp"
g++ -fPIC -c "$objects/version.cpp" -o "$objects/version.o"
# Symbols of PyTorch's libraries are found when the library is loaded into PyTorch. The kernels of the parts that were
# left out stay undefined; nothing calls them.
g++ -shared -o "$library" "$objects"/*.o -L"$torch_libraries" -ltorch -ltorch_cpu -ltorch_cuda -lc10 -lc10_cuda \
    -Wl,--unresolved-symbols=ignore-all
echo "$library: $version ($((SECONDS - started)) s)"
