#!/usr/bin/env bash
# The step *Compare* of action.yml. Its inputs are variables; see there.
set -uo pipefail

case "$FAIL_ON" in
  regressed | changed | unknown | never) ;;
  *)
    echo "::error title=maxview::fail-on: '$FAIL_ON' is none of regressed, changed, unknown, never"
    exit 2
    ;;
esac

out="$TEMPORARY/maxview-out"
echo "pages=$out" >>"$GITHUB_OUTPUT"
options=(--branch HEAD --out "$out" --junit "$TEMPORARY/maxview-junit.xml" --sarif "$TEMPORARY/maxview.sarif" --github)
[ -z "$BASELINE" ] || options+=(--baseline "$BASELINE")
[ -z "$ONLY" ] || options+=(--only "$ONLY")
[ -z "$GATE" ] || options+=(--gate "$GATE")
if [ "$COMMENT" = true ] && [ -n "$NUMBER" ]; then
  options+=(--comment "$REPOSITORY#$NUMBER")
fi
while IFS= read -r word; do
  [ -z "$word" ] || options+=("$word")
done <<<"$OPTIONS"
# the words of the command, quoted as in a shell; nothing in it is expanded or run
split='import os, shlex; print(*shlex.split(os.environ["TRAINER"]), sep="\0", end="\0")'
mapfile -d "" words < <("$ACTION/.venv/bin/python" -c "$split")

"$ACTION/.venv/bin/maxview" compare "${options[@]}" -- "${words[@]}"
status=$?
verdict=$(sed -n 's/^verdict=//p' "$GITHUB_OUTPUT" | tail -1)

# 0: nothing regressed; 1: regressed, changed or died; 2: wrong input; 3: unknown
case "$FAIL_ON:$status" in
  never:[013]) exit 0 ;;
  unknown:*) exit "$status" ;;
  *:3) exit 0 ;;
  regressed:1) [ "$verdict" != changed ] || [ -n "$GATE" ] || exit 0 ;;
esac
exit "$status"
