#!/usr/bin/env bash
# examples_test.sh BUILD: the examples of tools/examples, as built in-tree, do what they say.
set -euo pipefail
build=$1

squares=$("$build/examples/hello_actors")
expected=$(printf '%s\n' 1 4 9 16 25 36 49 64 81 100)
if [ "$squares" != "$expected" ]; then
  echo "hello_actors printed: $squares" >&2
  exit 1
fi

# The same over two processes; alone it says how it is to be started.
squares=$("$build/troupe" launch --nproc 2 -- "$build/examples/hello_ranks" | sed 's/^\[0\] //')
if [ "$squares" != "$expected" ]; then
  echo "hello_ranks printed: $squares" >&2
  exit 1
fi
alone=$("$build/examples/hello_ranks" 2>&1) && { echo "hello_ranks alone must fail" >&2; exit 1; }
[[ "$alone" == *"troupe launch --nproc 2"* ]] || { echo "hello_ranks alone said: $alone" >&2; exit 1; }

# The copy task is learnt: the loss falls from about ln 16 = 2.77 to below 0.3. And a run repeats bit by bit.
first=$("$build/examples/train_by_hand" 100)
echo "$first" | tail -n 1
echo "$first" | awk '$1 == "step" { if (!n++) begin = $4; end = $4 } END { exit !(begin > 2 && end < 0.3) }' ||
  { echo "train_by_hand did not learn to copy: $first" >&2; exit 1; }
[ "$("$build/examples/train_by_hand" 25)" = "$(echo "$first" | head -n 2)" ] || { echo "train_by_hand is not the same twice" >&2; exit 1; }
if "$build/examples/train_by_hand" 0 2>/dev/null; then echo "train_by_hand 0 must be refused" >&2; exit 1; fi
echo "the examples do what they say"
