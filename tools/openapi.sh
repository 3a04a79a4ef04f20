#!/usr/bin/env bash
# Writes the API's OpenAPI document to a file. OPENAPI names a copy that was made before.
set -euo pipefail
[[ -z ${OPENAPI:-} ]] || exec cp "$OPENAPI" "$1"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
WAYPOST_OPENAPI_FILE=$1 go test -vet=off -count=1 -run '^TestDocument_FollowsRecommendedRules$' ./controlplane/httpapi
