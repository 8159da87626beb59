#!/usr/bin/env bash
# The model of pools finds the mistakes of tests/plants/pool_*.patch.
# shellcheck source-path=SCRIPTDIR
what=pool
ops=300000 # some need that many
. "$(dirname "$0")/model_plants.sh"
