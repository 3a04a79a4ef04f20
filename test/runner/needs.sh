#!/usr/bin/env bash
# Prints what deploy/install-missing.sh has to install for the tests of packages, and
# "programs" if they run the program, which is built first.
#
#   test/runner/needs.sh all|PACKAGE ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [[ ${1:?} == all ]]; then
  echo cc postgres curl wrk spin nginx haproxy caddy chromium npm programs
  exit
fi
packages=$(go list "$@")
all=$(go list -deps -test "$@")
imports() { grep -qE "^waypost/$1( |\.|$)" <<<"$all"; }
tests() { grep -qE "^waypost/($1)$" <<<"$packages"; }
needs=(cc)
! imports internal/pgserver || needs+=(postgres)
! imports test/devtest || needs+=(programs)
! imports bench/wrk || needs+=(wrk)
! tests 'test/models' || needs+=(spin)
! tests 'test/fronts' || needs+=(nginx haproxy caddy)
! tests 'test/console' || needs+=(chromium npm)
! tests 'test/alerts|deploy/dashboards' || needs+=(prometheus)
! tests 'test/system' || needs+=(curl)
echo "${needs[@]}"
