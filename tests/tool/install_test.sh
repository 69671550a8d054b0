#!/usr/bin/env bash
# install_test.sh BUILD SOURCE: what is installed can be used by an outside project: the examples are configured with
# find_package(Troupe), built and run from a copy that knows nothing of this repository.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/prefix/bin/troupe" --version
for example in hello_actors hello_ranks train_by_hand; do
  cp -r "$source/tools/examples/$example" "$work/$example"
  { cmake -S "$work/$example" -B "$work/$example/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_FLAGS="${TROUPE_OUTSIDE_FLAGS:-}" &&
    cmake --build "$work/$example/build"; } >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
done
[ "$("$work/hello_actors/build/hello_actors" | tail -n 1)" = 100 ] || { echo "hello_actors, built outside, is wrong" >&2; exit 1; }
[ "$("$work/prefix/bin/troupe" launch --nproc 2 -- "$work/hello_ranks/build/hello_ranks" | tail -n 1)" = "[0] 100" ] ||
  { echo "hello_ranks, built outside, is wrong" >&2; exit 1; }
"$work/train_by_hand/build/train_by_hand" 2
echo "an outside project builds and runs against what was installed"
