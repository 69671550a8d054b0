"""Prints the reference values of shuffle_test.cc: the order of models/data's Shuffle, written from its description
(models/data/shuffle.h) and the Philox paper, sharing no code with it. Run: python3 shuffle_reference.py"""

M0, M1, W0, W1, MASK = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = M0 * c[0], M1 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + W0) & MASK, (k[1] + W1) & MASK]
    return c


# A known answer of Random123's kat_vectors.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def words(value):
    return [value & MASK, (value >> 32) & MASK]


def shuffle(size, seed, epoch, position):
    # key of the stream (seed, step 0, sample = epoch, layer -1, use 0), as runtime/base/rng.h folds it
    a = philox([0, 0] + words(epoch), words(seed))
    b = philox([a[0], a[1], -1 & MASK, 0], [a[2], a[3]])
    key, high_words = b[:2], b[2:]
    bits = (size - 1).bit_length()
    high_bits = bits // 2
    low_bits = bits - high_bits
    value = position
    while True:
        low, high = value % (1 << low_bits), value >> low_bits
        for index in range(0, 16, 2):
            high ^= philox([low, index] + high_words, key)[0] % (1 << high_bits)
            low ^= philox([high, index + 1] + high_words, key)[0] % (1 << low_bits)
        value = high << low_bits | low
        if value < size:
            return value


for size, seed, epoch in [(1, 0, 0), (2, 7, 0), (10, 7, 0), (10, 7, 1), (1000, 1 << 40, 3), (10**12 + 39, 5, 2), (1 << 62, 2**64 - 1, 9)]:
    spots = sorted({0, size // 3, size - 1})
    print(f"{{{size}, {seed}u, {epoch}, {{" + ", ".join(f"{{{p}, {shuffle(size, seed, epoch, p)}}}" for p in spots) + "}},")
