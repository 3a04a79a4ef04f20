#!/bin/sh
# Writes a version so that dpkg orders it right: 0.1.0-dev comes before 0.1.0, and commits
# after a tag come after it.
#
#   tools/dist/debian-version.sh VERSION
echo "$1" | sed -E -e 's/-([0-9]+)-(g[0-9a-f]+)(-dirty)?$/+\1.\2\3/' -e 's/-dirty$/+dirty/' -e 's/-/~/g'
