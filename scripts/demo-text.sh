#!/bin/sh
# Writes the King James text of the Debian package bible-kjv to a file: one verse a line without its reference, chapters
# apart by a blank line, so that `sluice data pack --documents paragraph` makes every chapter a document.
set -eu

if [ $# -ne 1 ]; then
  echo "usage: scripts/demo-text.sh FILE" >&2
  exit 2
fi
if ! command -v bible >/dev/null; then
  echo "demo-text: expected the program 'bible', found none; install it with: sudo apt-get install bible-kjv" >&2
  exit 1
fi

temporary="$1.tmp-$$"
trap 'rm -f "$temporary"' EXIT
# With -f a verse is one line: "Ge1:2 And the earth was ...".
bible -f gen1:1-rev22:21 </dev/null | awk '
  {
    chapter = $1
    sub(/:.*/, "", chapter)
    if (NR > 1 && chapter != previous)
      print ""
    previous = chapter
    sub(/^[^ ]+ /, "")
    print
  }' >"$temporary"
verses=$(grep -c . "$temporary" || true)
if [ "$verses" -lt 31000 ]; then
  echo "demo-text: expected about 31,102 verses from 'bible', found $verses; is the package bible-kjv-text installed?" >&2
  exit 1
fi
mv "$temporary" "$1"
trap - EXIT
