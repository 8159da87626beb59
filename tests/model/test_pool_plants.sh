#!/usr/bin/env bash
# The model of pools finds the mistakes of tests/plants/pool_*.patch.
# shellcheck source-path=SCRIPTDIR
what=pool
seeds="1 100 300 500 700 900" # some mistakes are found by few schedules
. "$(dirname "$0")/model_plants.sh"
