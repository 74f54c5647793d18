"""korch WORD ...: the programs that came with the wheel."""

import os
import sys

from ._programs import program


def main():
    path = program("korch")
    if os.path.realpath(path) == os.path.realpath(sys.argv[0]):
        sys.exit("korch: the programs are not in this package; name their folder in KORCH_BIN")
    os.execv(path, ["korch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
