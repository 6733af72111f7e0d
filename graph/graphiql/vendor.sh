#!/bin/sh
# Fetches the files of the GraphiQL page from their npm packages, in the exact
# versions below, and writes them here, compressed. Run it to change a version;
# the results are committed, so that neither build nor browser fetches anything.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# take <package> <version> <file in it> <name here>
take() {
  dir="$work/$1-$2"
  if [ ! -d "$dir" ]; then
    mkdir -p "$dir"
    (cd "$work" && npm pack --silent "$1@$2" >/dev/null)
    tar -xzf "$work/$1-$2.tgz" -C "$dir" --strip-components=1
    { echo "== $1 $2"; cat "$dir"/LICENSE*; echo; } >>"$work/licenses"
  fi
  gzip -9 -n -c "$dir/$3" >"assets/$4.gz"
}

mkdir -p assets
take react 18.3.1 umd/react.production.min.js react.js
take react-dom 18.3.1 umd/react-dom.production.min.js react-dom.js
take graphql-ws 6.0.4 umd/graphql-ws.min.js graphql-ws.js
take graphiql 3.9.0 graphiql.min.js graphiql.js
take graphiql 3.9.0 graphiql.min.css graphiql.css
cp "$work/licenses" LICENSES.txt
