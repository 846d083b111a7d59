#!/usr/bin/env bash
# Train the embedded checkpoint on for nine minutes, on a bare machine that holds only this working tree.
#
#   scripts/gpu_train.sh prepare SHARDS  on a machine with fonts and documentation: fills .gpu_data/ (git ignores it);
#                                        of formulas/, math_text/ and tables/ below SHARDS it takes SHARD_MIB (10) each
#   scripts/gpu_train.sh run OUT         on the GPU machine: trains and writes OUT/nano.tar.?? (at most 8 of 15 MiB)
#   scripts/gpu_train.sh join DIR TO     anywhere: puts the shards together again into the folder TO
#
# `run` needs Python 3.12 with torch, tokenizers, safetensors, numpy and Pillow; the rest of our needs it brings or skips.
# DEVICE=cpu BUDGET_S=60 scripts/gpu_train.sh run OUT    tries the same path without a GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data=${GPU_DATA:-.gpu_data}
python=${PYTHON:-python3}
wheels=(rapidfuzz pylatexenc accelerate packaging pyyaml)
case "${1:-}" in
prepare)
    shards=${2:?usage: gpu_train.sh prepare SHARDS}
    for kind in formulas math_text tables; do
        [ -d "$shards/$kind" ] || { echo "no $shards/$kind: docs/training-nano.md says how shards are made" >&2; exit 2; }
        rm -rf "$data/shards/$kind" && mkdir -p "$data/shards/$kind"
        left=$((${SHARD_MIB:-10} * 1024 * 1024))
        for file in "$shards/$kind"/*.shard.npz; do
            left=$((left - $(stat -c %s "$file")))
            [ "$left" -ge 0 ] || break
            cp "$file" "$data/shards/$kind/"
        done
        [ -n "$(ls "$data/shards/$kind")" ] || { echo "no shard of $shards/$kind fits: raise SHARD_MIB" >&2; exit 2; }
    done
    PYTHONPATH=src "$python" scripts/prepare_data.py --out "$data"
    # The GPU machine has none of these and fetches nothing; packaging and pyyaml are what accelerate imports.
    rm -rf "$data/wheels"
    "$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 \
        -d "$data/wheels" "${wheels[@]}"
    du -sh "$data"
    ;;
run)
    out=${2:?usage: gpu_train.sh run OUT}
    device=${DEVICE:-cuda}
    budget=${BUDGET_S:-520}
    [ -f "$data/fonts.json" ] || { echo "no $data/: run 'scripts/gpu_train.sh prepare' first and carry it" >&2; exit 2; }
    mkdir -p "$out"
    run=$(mktemp -d)
    "$python" -c "import rapidfuzz, pylatexenc, accelerate" 2>/dev/null ||
        "$python" -m pip install -q --no-index --no-deps --target "$run/site" "$data"/wheels/*.whl
    PYTHONPATH="src:$run/site" "$python" -u scripts/gpu_train.py --data "$data" --run "$run" --device "$device" --budget-s "$budget"
    cp "$run/log.jsonl" "$out/log.jsonl"
    tar -C "$run" -czf "$run/nano.tar.gz" checkpoint
    split -b 15M -d "$run/nano.tar.gz" "$out/nano.tar."
    n=$(ls "$out"/nano.tar.?? | wc -l)
    [ "$n" -le 7 ] || { echo "$n shards are too many to come back beside the log" >&2; exit 1; }
    ls -l "$out"
    ;;
join)
    mkdir -p "${3:?usage: gpu_train.sh join DIR TO}"
    cat "$2"/nano.tar.?? | tar -C "$3" -xz
    ls -l "$3/checkpoint"
    ;;
*)
    sed -n '2,10p' "$0"
    exit 2
    ;;
esac
