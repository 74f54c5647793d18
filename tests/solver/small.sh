#!/bin/sh
# Programs of up to 400 primitives and one real one; circular waiting also without row separation.
exec "$(dirname "$0")/run" "$1" cyc1 cyc2 cyc3 cyc1/rows cyc2/rows cyc3/rows tr50 evit60 mix60 evit380 cnn380 tr371 candy yolov4
