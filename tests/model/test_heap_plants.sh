#!/usr/bin/env bash
# The model of device heaps must find the bugs of tests/plants/heap_*.patch.
# shellcheck source-path=SCRIPTDIR
what=heap
. "$(dirname "$0")/model_plants.sh"
