#!/usr/bin/env bash
# The figures that need a GPU, in one run of under nine minutes, on a bare machine that holds only this working tree.
#
#   benchmarks/gpu.sh prepare             anywhere with pip: fills .gpu_data/bench_wheels/ (git ignores it; carry it along)
#   benchmarks/gpu.sh run OUT [--dry-run] on the GPU machine: writes JSON files for `gravityocr bench report` into OUT;
#                                         --dry-run takes the same path on a CPU with tiny sizes
#
# `run` needs Python 3.12 with torch, tokenizers, safetensors, numpy and Pillow; the rest of our needs it brings.
# BUDGET_S=500 is when no further measurement is begun; those that were left out are told.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wheels=${BENCH_WHEELS:-.gpu_data/bench_wheels}
python=${PYTHON:-python3}
case "${1:-}" in
prepare)
    rm -rf "$wheels"
    "$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_26_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        -d "$wheels" pypdfium2 lxml
    du -sh "$wheels"
    ;;
run)
    out=${2:?usage: gpu.sh run OUT [--dry-run]}
    shift 2
    mkdir -p "$out"
    site=$(mktemp -d)
    trap 'rm -rf "$site"' EXIT
    "$python" -c "import pypdfium2, lxml" 2>/dev/null || {
        [ -d "$wheels" ] || { echo "no $wheels/: run 'benchmarks/gpu.sh prepare' first and carry it" >&2; exit 2; }
        "$python" -m pip install -q --no-index --no-deps --target "$site" "$wheels"/*.whl
    }
    PYTHONPATH="src:.:$site" "$python" -u -m benchmarks.gpu --out "$out" --budget-s "${BUDGET_S:-500}" "$@"
    ;;
*)
    sed -n '2,11p' "$0"
    exit 2
    ;;
esac
