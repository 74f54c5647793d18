"""korch WORD ...: the programs that came with the wheel."""

import os
import sys

from ._programs import program


def main():
    path = program("korch")
    os.execv(path, ["korch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
