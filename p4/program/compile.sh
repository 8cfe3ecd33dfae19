#!/bin/sh
# Compiles penstock.p4 and writes the three files that are committed with it:
#
#   penstock.p4info.txtpb  what a P4Runtime client sees
#   penstock.json          what bmv2 runs
#   sources.sha256         which sources and results belong together; a test of
#                          the p4runtime crate compares it with the files
#
# p4c is in no package registry. It is looked for in $P4C, in $PATH and in
# /opt/p4c/bin; without it nothing is written, and the committed files serve.
set -eu
cd "$(dirname "$0")"

p4c=${P4C:-}
[ -n "$p4c" ] || p4c=$(command -v p4c-bm2-ss) || p4c=/opt/p4c/bin/p4c-bm2-ss
if [ ! -x "$p4c" ]; then
    cat >&2 <<'EOF'
############################################################
# p4c-bm2-ss NOT FOUND: the P4 program was NOT compiled.   #
# Build p4c with its bmv2 backend and set P4C to the path  #
# of p4c-bm2-ss. The committed artefacts stay as they are. #
############################################################
EOF
    exit 3
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

"$p4c" --arch v1model --Werror \
    --p4runtime-files "$tmp/penstock.p4info.txtpb" -o "$tmp/full.json" penstock.p4

# Two thirds of bmv2's JSON are source positions; leaving them out keeps the
# committed file small and unchanged by a moved comment.
python3 - "$tmp/full.json" "$tmp/penstock.json" <<'EOF'
import json, sys

def strip(node):
    if isinstance(node, dict):
        return {key: strip(value) for key, value in node.items() if key != "source_info"}
    if isinstance(node, list):
        return [strip(value) for value in node]
    return node

with open(sys.argv[1]) as source:
    program = strip(json.load(source))
with open(sys.argv[2], "w") as target:
    # A line for each top-level section.
    lines = [f"{json.dumps(key)}: {json.dumps(program[key], separators=(',', ':'))}" for key in program]
    target.write("{\n" + ",\n".join(lines) + "\n}\n")
EOF

mv "$tmp/penstock.p4info.txtpb" "$tmp/penstock.json" .
LC_ALL=C sha256sum ./*.p4 penstock.json penstock.p4info.txtpb | sed 's|\./||' > sources.sha256
echo "compiled with $("$p4c" --version 2>&1 | tr "\n" " ")"
