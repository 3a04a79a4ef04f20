#!/usr/bin/env bash
# Runs the tests and reports at the end which failed and which are flaky. `make test` and
# `make test-long` call it.
#
#   test/runner/run.sh all              everything that `make test` runs
#   test/runner/run.sh long             the long forms of tests
#   test/runner/run.sh soak             a fleet under restarts, partitions and kills for WAYPOST_SOAK
#   test/runner/run.sh chaos            a system under a schedule of faults for WAYPOST_CHAOS
#   test/runner/run.sh PACKAGE ...      these packages, with the race detector if one needs it
#
# A failed test runs again, up to twice; one that passes then is flaky. A package that takes
# longer than TEST_TIMEOUT is ended with the stacks of all goroutines.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

began=$SECONDS
out=bin/test
reruns=$out/reruns
failed=$out/failed # the names of steps
mkdir -p "$out"
rm -f "$reruns"* "$failed"

# The race detector holds each process up for a second when it ends.
export GORACE=atexit_sleep_ms=10
# Argon2 is built without it: shadow memory for the 19 MiB of a password's hash costs
# more than the hash. The linters run go vet, so that go test need not. Without the paths of
# the checkout, a second one compiles nothing again.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath -gcflags=golang.org/x/crypto/argon2=-race=false -vet=off"

# step runs a command and remembers its name if it fails.
step() {
  local name=$1
  shift
  echo "== $name (after $((SECONDS - began)) s)"
  "$@" || echo "$name" >>"$failed"
}

# go_test NAME PACKAGES FLAG... runs go test; a failed test runs again, up to twice. Many
# tests wait for other processes, so more packages than processors run at a time.
# Without -race the build is that of a release, without cgo, and with the places at which tests
# kill the program, so that tests and the program share it.
go_test() {
  local name=$1 packages=$2 cgo=1
  shift 2
  [[ " $* " == *" -race "* ]] || { cgo=0 && set -- -tags failpoints "$@"; }
  echo "== $name (after $((SECONDS - began)) s)"
  local report=$reruns.$RANDOM code=0
  CGO_ENABLED=$cgo test/runner/in-memory.sh bin/tools/gotestsum --format pkgname --format-hide-empty-pkg --hide-summary skipped \
    --rerun-fails=2 --rerun-fails-max-failures=40 --rerun-fails-run-root-test --rerun-fails-report "$report" --packages "$packages" -- \
    -timeout "${TEST_TIMEOUT:-15m}" -p $((2 * $(nproc))) "$@" || code=$?
  # A package that fails without a failed test, such as for a goroutine that is left, is
  # repeated without tests, and would pass.
  if ((code == 0)) && [[ -f $report ]] && awk '$2 == $4 {bad = 1} END {exit !bad}' "$report"; then
    code=1
  fi
  ((code == 0)) || echo "$name" >>"$failed"
  [[ ! -f $report ]] || cat "$report" >>"$reruns"
}

# prepare PACKAGE... installs and builds what the tests of packages need, and no more.
prepare() {
  local needs browser=() others=() need
  needs=$(test/runner/needs.sh "$@") || return
  for need in $needs; do
    case $need in
      programs) ;;
      chromium | npm) browser+=("$need") ;;
      *) others+=("$need") ;;
    esac
  done
  deploy/install-missing.sh "${others[@]}" || return
  # Without a browser the flows of the console are skipped, but in CI they fail.
  ((${#browser[@]} == 0)) || { deploy/install-missing.sh "${browser[@]}" && tools/console/install.sh; } || true
  [[ $needs != *programs* ]] || build
}

# build makes the programs that the packages in race and calm start. It names each dependency
# that it has compiled, which takes minutes the first time.
build() {
  local v=-v
  [[ ! -x $out/waypost && ! -x $out/waypost-race ]] || v=
  { [[ -z ${race-all} ]] || go build $v -race -tags failpoints -o $out/waypost-race ./cmd/waypost; } &&
    { [[ -z ${calm-all} ]] || CGO_ENABLED=0 go build $v -tags failpoints -o $out/waypost ./cmd/waypost; }
}

alerts() {
  if deploy/install-missing.sh prometheus; then
    make --no-print-directory test-alerts
  else
    echo "The alert rules were not tested." >&2
  fi
}

# The race detector watches the tests of a package in their own process. Without it run packages
# whose tests have no second goroutine, and suites that run whole systems, because it slows programs down: make
# test has a program with it under faults and kills, and make test-long has it in all suites.
sequential='^waypost(/(api(/.*)?|bench(/.*)?|controlplane/(limit|rollup|target)|deploy/dashboards|edge/(fastpath|proxy)'
sequential+='|internal/(codes|condition|config|datadir|hotp|memlimit|pacer|patterns|restart|rulefile|systemd)'
sequential+='|rules(/(agents|budget))?|test/.*|web))?$'
watched='^waypost/test/(accessapi|chaos|followers|history)$'

# split reads names of packages, and sets race to those with the race detector and calm to the others.
split() {
  local name
  race='' calm=''
  while read -r name; do
    if [[ $name =~ $sequential && ! $name =~ $watched ]]; then calm+="$name "; else race+="$name "; fi
  done
}

# calmly PACKAGES runs tests of packages that have run with the race detector again without it: those
# in files that it leaves out, and those that count allocations.
calmly() {
  local files names packages
  files=$(grep -rlE --include='*_test.go' '^//go:build !race|^func Test\w*Alloc' .)
  names=$(xargs grep -hoP '^func \KTest\w+' <<<"$(xargs grep -l '^//go:build !race' <<<"$files")" | paste -sd '|')
  packages=$(xargs -n 1 dirname <<<"$files" | sort -u | xargs go list | grep -xF "$(tr ' ' '\n' <<<"$1")" | tr '\n' ' ')
  [[ -z ${packages// /} ]] || go_test "allocations, and what the race detector slows down" "$packages" -run "Alloc|^($names)\$"
}

everything() {
  prepare all || exit
  deploy/install-missing.sh prometheus || true # test/alerts skips itself without it
  # The longest begin first.
  local first=(./test/console ./test/system ./test/keys ./test/alerts ./controlplane/postgres ./edge/replica) race calm
  export RAPID_CHECKS=20 # random cases of a property, instead of 100
  split < <(go list "${first[@]}" ./test/... ./... | awk '!seen[$0]++' | grep -vE '^waypost/test/(chaos|models)$')
  # The former keep processors busy most of their time, and the latter wait. In the redirect server
  # sockets are read and written by other system calls without the race detector.
  (trap - INT && go_test "packages with the race detector" "$race" -race -p $(($(nproc) + 1))) &
  go_test "packages without the race detector" "$calm waypost/edge/server"
  go_test "the protocols as models" ./test/models -short
  # What the race detector would slow down, or hide, is in files of their own.
  calmly "${race/waypost\/edge\/server /}"
  # The statements do not depend on the time zone, language and settings of an operator.
  WAYPOST_TEST_POSTGRES=foreign go_test "a PostgreSQL with foreign settings" ./controlplane/postgres \
    -run 'Search|Typed|Changelog|Budgets|Insert|Lease|Salt|Month|Up_'
  step "alert rules" alerts
  wait
  # It keeps all processors busy, so it runs alone.
  go_test "a system under a schedule of faults" ./test/chaos -race
}

# long_form NAME PACKAGE TESTS FLAG... runs tests of a package, of which TESTS lists the names
# without "Test". One that the package does not have is a failure: go test would pass without it.
long_form() {
  local name=$1 package=$2 tests=$3 test
  shift 3
  for test in $tests; do
    if ! grep -qE "^func Test$test\(" "$package"/*_test.go; then
      echo "There is no Test$test in $package." >&2
      echo "$name" >>"$failed"
      return
    fi
  done
  go_test "$name" "$package" -run "^Test(${tests// /|})\$" "$@"
}

# long_forms goes through the tests that have a long form. The soak and the schedule of faults
# have commands of their own: `make soak` and `make chaos`.
long_forms() {
  export TEST_LONG=yes TEST_TIMEOUT=90m
  echo "Commit $(git describe --always --dirty), $(nproc) processors, $(go version | cut -d' ' -f3), $(date -u +%F)"
  step "build" build
  long_form "kills of everything, again and again" ./test/system "Clicks_SurviveKillsOfEverything Links_SurviveKillsOfEverythingUnderLoad" -race
  WAYPOST_LEDGER=10m long_form "clicks are counted in ten minutes of kills" ./test/ledger WhatVisitorsWereAnsweredIsCountedWhoeverIsKilledWherever -race
  WAYPOST_KEYS=1000000 long_form "a million keys are issued once" ./test/keys Keys_AreIssuedOnceWhileControlPlanesAreKilledAndRangesMoved -race
  WAYPOST_TREE_STEPS=1000 long_form "a thousand steps of a tree of replicas" ./test/followers \
    "ReplicasEqualPostgreSQLWhateverHappens InLockstepASeedRepeatsARunInFull" -race
  WAYPOST_FOLLOWERS=1000 long_form "a thousand followers of one stream" ./replication ABatchIsEncodedOnceForAllFollowers
  long_form "120 restarts of edges and 20 kills of a control plane during deletions" ./test/system Wait_LeavesOutNoEdgeThatServes -race
  long_form "each file of a replica is cut at 50 places and flipped at 500" ./edge/replica "DB_IsRightOrRepairedWhateverFileIsDamaged DB_FindsDamageWhenItIsOpened Restore_ResumesAfterACrash"
  long_form "the plans of all lists" ./controlplane/postgres Listing_OfManyLinks
  long_form "the keys after restores, twice and with memories lost" ./test/keys \
    "Keys_AreNotIssuedAgainAfterAnOldCopyIsRestored Keys_AreNotIssuedAgainAfterADumpIsRestored" -race
  long_form "9,147 links are imported, killed, undone and redirected" ./test/system \
    "Import_GoesOnWhereTheControlPlaneWasKilledIsUndoneAndMended Links_AreImportedAndRedirectedByteForByte" -race
  long_form "a worker of imports is killed at each place, twice; 10,000 parts" ./controlplane/imports \
    "Imports_MakeTheSameLinksWhereverAWorkerIsKilled Imports_UndoGoesOnWhereAWorkerWasKilled Imports_PartsMayComeInAnyOrder" -race
  long_form "a million clicks of groups are counted twice" ./controlplane/postgres/analytics GroupClicks_EqualAnIndependentCount
  long_form "a takedown reaches ten edges" ./cmd/waypost Takedown_ReachesEveryEdgeAndOutlastsRestartsAndARestore -race
  WAYPOST_BOOTSTRAP_LINKS=1000000 long_form "a bootstrap of a million links is killed ten times" ./edge/replica Bootstrap_ResumesAfterKills
  WAYPOST_WEEK=zipf long_form "a week of clicks, most on few links" ./edge/clicks Compaction_WeekOfClicksFitsTheQuota
  WAYPOST_WEEK=uniform long_form "a week of clicks, alike on all links" ./edge/clicks Compaction_WeekOfClicksFitsTheQuota
  long_form "a forgotten primary is reached twenty times" ./test/history History_ForgottenPrimaryTakesNoEdgeOver -race
  long_form "a drill with 500 links" ./test/drill Drill_PostgreSQLAndTheControlPlanesDiskAreLost -race
  long_form "the plans of statements on a million links" ./test/statements Statements_OfEverySecondReadLittle
  long_form "each condition is made true, and said everywhere" ./test/alerts Conditions_AreSaidEverywhere
  long_form "click budgets hold while edges are killed and cut off for a minute" ./test/budgets Budgets_HoldWhileEdgesAreKilledAndCutOff -race
  RAPID_CHECKS=200 go_test "random cases, 200 of each" "./controlplane/postgres/analytics ./keyrange ./rules/budget" -race \
    -run 'EveryBatchIsCountedOnce|WhateverIsForgotten|Rebalance_|Budget_NeverExceeds'
  split < <(go list ./test/... | grep -vE '^waypost/test/(console|install|models|runner)$')
  TEST_LONG='' go_test "whole systems with the race detector" "$calm" -race
  go_test "row-level security alone" ./test/tenancy -race -tags rlsonly
  long_form "all flows of the console" ./test/console \
    "Statistics_OfAYearTake300Milliseconds Console_Fleet Console_Frame Console_Links Console_Link Console_Transfer Console_Settings Visitors_GivePasswords"
  go_test "edges under load without the race detector" ./test/system -run UnderLoad
  go_test "the protocols as models, with every flaw" ./test/models
  step "benchmarks, little of each" make --no-print-directory bench-try
  step "fuzz tests, ten seconds each" test/runner/fuzz.sh 10s
}

# sign ends a table with the commit and the day of its run.
sign() {
  [[ ! -s $1 ]] || printf '\nMade at commit %s, %s.\n' "$(git describe --always --dirty)" "$(date -u +%F)" >>"$1"
}

# soak lets a fleet run for WAYPOST_SOAK. A test that failed is not repeated.
soak() {
  step "build" build
  step "a fleet under restarts, partitions and kills for $WAYPOST_SOAK" test/runner/in-memory.sh go test -race -v -count 1 \
    -timeout 90m -run 'ComesRightByItself' ./test/fleet
  sign "$WAYPOST_SOAK_TABLE"
}

# chaos runs a schedule of faults for WAYPOST_CHAOS. A run that failed is not repeated.
chaos() {
  step "build" build
  step "faults for $WAYPOST_CHAOS, seed $WAYPOST_CHAOS_SEED" test/runner/in-memory.sh go test -race -v -count 1 \
    -timeout 120m -run 'KeepsItsPromisesUnderFaults' ./test/chaos
  sign "$WAYPOST_CHAOS_TABLE"
}

# verdict prints the closing table.
verdict() {
  local test runs failures code=0
  echo
  if [[ -f $reruns ]]; then
    while read -r test runs _ failures _; do
      if ((runs == failures)); then
        echo "FAILED  ${test%:}: $failures of $runs runs"
      else
        echo "FLAKY   ${test%:}: failed $failures of $runs runs"
      fi
    done < <(sort -u "$reruns")
  fi
  if [[ -f $failed ]]; then
    sed 's/^/FAILED  /' "$failed"
    code=1
  fi
  local took=$((SECONDS - began))
  printf '%s after %d:%02d minutes\n' "$( ((code == 0)) && echo PASSED || echo FAILED)" $((took / 60)) $((took % 60))
  return "$code"
}

case ${1:-} in
  all) everything ;;
  long) long_forms ;;
  soak) soak ;;
  chaos) chaos ;;
  '' | -*)
    echo "usage: $0 all|long|soak|chaos|PACKAGE ..." >&2
    exit 2
    ;;
  *)
    split < <(go list "$@")
    prepare "$@" || exit
    [[ -z $race ]] || { go_test "with the race detector: $race" "$race" -race; calmly "$race"; }
    [[ -z $calm ]] || go_test "without the race detector: $calm" "$calm"
    ;;
esac
verdict
