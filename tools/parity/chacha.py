"""ChaCha with 8 rounds (Bernstein, 2008), keyed from a number like Rust's `rand_core`: the generator of the sampler's draws."""
import struct

MASK = 0xFFFFFFFF


def key(seed):
    """32 bytes from a 64-bit number, by PCG32 (O'Neill, 2014)."""
    out = []
    for _ in range(8):
        seed = (seed * 6364136223846793005 + 11634580027462260723) & (1 << 64) - 1
        word, turn = ((seed >> 18 ^ seed) >> 27) & MASK, seed >> 59
        out.append((word >> turn | word << (-turn & 31)) & MASK)
    return out


def block(key, stream):
    """The first 16 words of a stream."""
    start = list(struct.unpack("<4I", b"expand 32-byte k")) + key + [0, 0, stream & MASK, stream >> 32]
    x = start[:]

    def quarter(a, b, c, d):
        for into, add, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[into] = (x[into] + x[add]) & MASK
            word = x[turned] ^ x[into]
            x[turned] = (word << bits | word >> 32 - bits) & MASK

    for _ in range(4):
        for column in range(4):
            quarter(column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return [(a + b) & MASK for a, b in zip(x, start)]


def uniform(seed, position):
    """The number in [0, 1) that decides the token at `position` of the sample with `seed`."""
    low, high = block(key(seed), position)[:2]
    return ((high << 32 | low) >> 11) / 2**53
