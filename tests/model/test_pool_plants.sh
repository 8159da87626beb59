#!/usr/bin/env bash
# The model of pools must find the bugs of tests/plants/pool_*.patch.
# shellcheck source-path=SCRIPTDIR
what=pool
ops=6000 # one world
. "$(dirname "$0")/model_plants.sh"
