#!/usr/bin/env bash
# Writes the bill of materials of a program in the CycloneDX format: the modules that are
# linked into it, as the Go command has noted them there.
#
#   tools/dist/bill.sh PROGRAM VERSION
set -euo pipefail
go version -m -json "$1" | jq --arg version "$2" --arg sum "$(sha256sum "$1" | cut -d ' ' -f 1)" --arg time "$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" '
  def component($type; $name; $version; $purl): {"bom-ref": $purl, $type, $name, $version, $purl};
  [
    component("library"; "std"; .GoVersion; "pkg:golang/std@" + .GoVersion),
    (.Deps[] | .Replace // . |
      component("library"; .Path; .Version; "pkg:golang/\(.Path)@\(.Version)") + {properties: [{name: "waypost:go.sum", value: .Sum}]})
  ] as $modules
  | component("application"; "waypost"; $version; "pkg:generic/waypost@" + $version) as $program
  | {
    "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json", bomFormat: "CycloneDX", specVersion: "1.7", version: 1,
    metadata: {
      timestamp: $time,
      component: ($program + {hashes: [{alg: "SHA-256", content: $sum}], licenses: [{license: {id: "Apache-2.0"}}]})
    },
    components: $modules,
    dependencies: [{ref: $program["bom-ref"], dependsOn: [$modules[]["bom-ref"]]}]
  }'
