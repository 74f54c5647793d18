#!/bin/sh
# Programs of up to 400 primitives and one real one; circular waiting also without row separation, and some by lp_solve.
exec "$(dirname "$0")/run" "$1" cyc1 cyc2 cyc3 cyc1/rows cyc2/rows cyc3/rows tr50 evit60 mix60 evit380 cnn380 tr371 candy yolov4 cyc1/lp_solve cyc2/lp_solve cyc3/lp_solve tr50/lp_solve evit380/lp_solve candy/lp_solve yolov4/lp_solve
