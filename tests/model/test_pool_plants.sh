#!/usr/bin/env bash
# The model of pools finds the mistakes of tests/plants/pool_*.patch.
# shellcheck source-path=SCRIPTDIR
what=pool
. "$(dirname "$0")/model_plants.sh"
