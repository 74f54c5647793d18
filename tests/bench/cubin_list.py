"""Cubins with what a reader of their machine code must know beside them, in a list: gpu_peers.sh says what stands in it."""

import os
import struct

# per multiprocessor: registers, shared memory in bytes (a block's 1 KiB for the driver is taken off a block), warps, blocks
SM = {70: (65536, 98304, 64, 32), 80: (65536, 167936, 64, 32), 86: (65536, 102400, 48, 16),
      89: (65536, 102400, 48, 24), 90: (65536, 233472, 64, 32)}
HEAD = "# file sm warps stages registers shared_bytes blocks_per_sm\n"


def sections(elf):
    """(name, type, info, body) of each section of a 64-bit ELF file."""
    at, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<3H", elf, 58)
    rows = [struct.unpack_from("<2I4Q2I2Q", elf, at + i * size) for i in range(count)]
    base = rows[names][4]
    for name, kind, _, _, offset, length, _, info, _, _ in rows:
        end = elf.index(b"\0", base + name)
        yield elf[base + name:end].decode(), kind, info, elf[offset:offset + length] if kind != 8 else b""


def registers(elf):
    """The most registers of a kernel in it: EIATTR_REGCOUNT (0x2f) of .nv.info, a symbol and a number each."""
    most = 0
    for name, _, _, body in sections(elf):
        at = 0
        while name == ".nv.info" and at + 4 <= len(body):
            form, attribute, value = struct.unpack_from("<2BH", body, at)
            if form == 4 and attribute == 0x2F:
                most = max(most, struct.unpack_from("<2I", body, at + 4)[1])
            at += 4 + (value if form == 4 else 0)
    return most


def blocks(sm, warps, regs, shared):
    """Blocks that a multiprocessor holds: registers go by 8 a thread and 4 warps, shared memory by 128 bytes."""
    have, bytes_, most_warps, most = SM[sm]
    of_regs = have // (-(-regs // 8) * 8 * 32) // 4 * 4 // warps if regs else most
    a_block = -(-shared // 128) * 128 + (1024 if sm >= 80 else 0)
    of_shared = bytes_ // a_block if a_block else most
    return min(most, most_warps // warps, of_regs, of_shared)


class Writer:
    """Files into a folder, lines into FOLDER/NAME.list when all are there."""

    def __init__(self, folder, name):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.path, self.lines = folder, os.path.join(folder, name + ".list"), []

    def __enter__(self):
        return self

    def add(self, file, elf, sm, warps, stages, shared):
        regs = registers(elf)
        with open(os.path.join(self.folder, file), "wb") as f:
            f.write(elf)
        self.lines.append(f"{file} {sm} {warps} {stages} {regs} {shared} {blocks(sm, warps, regs, shared)}\n")
        print(self.lines[-1], end="", flush=True)

    def __exit__(self, kind, value, trace):
        if kind is None:
            with open(self.path, "w", encoding="ascii") as f:
                f.write(HEAD)
                f.writelines(sorted(self.lines))
