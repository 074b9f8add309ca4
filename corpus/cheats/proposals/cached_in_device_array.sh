#!/bin/sh
# The cheat with the same name, as a proposed source. CHEATS is the folder corpus/cheats.
printf '```cuda\n'
cat "$CHEATS/cached_in_device_array/cheat.cu"
printf '```\n'
