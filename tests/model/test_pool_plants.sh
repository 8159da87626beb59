#!/usr/bin/env bash
# The model of pools must find the bugs of tests/plants/pool_*.patch.
# shellcheck source-path=SCRIPTDIR
what=pool
seeds="1 100 300 500 700 900" # few schedules find some of the bugs
. "$(dirname "$0")/model_plants.sh"
