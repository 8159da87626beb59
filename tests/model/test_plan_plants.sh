#!/usr/bin/env bash
# The model of plans must find the bugs of tests/plants/plan_*.patch.
# shellcheck source-path=SCRIPTDIR
what=plan
. "$(dirname "$0")/model_plants.sh"
