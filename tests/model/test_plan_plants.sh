#!/usr/bin/env bash
# The model of plans finds the mistakes of tests/plants/plan_*.patch.
# shellcheck source-path=SCRIPTDIR
what=plan
. "$(dirname "$0")/model_plants.sh"
