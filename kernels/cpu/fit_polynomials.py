"""Minimax polynomials of isa/simd_math.h: prints the coefficients, lowest power first, and the error each one reaches.

Remez exchange in 50 digits (mpmath). Coefficients are rounded to fp32 one after another, lowest power first, and the rest is
fitted again, so the printed error is that of the rounded polynomial evaluated exactly.
"""
import struct
from mpmath import mp, mpf, matrix, lu_solve, exp, sin, cos, tanh, erf, erfc, log, pi

mp.dps = 50


def fp32(value):
    return mpf(struct.unpack("f", struct.pack("f", float(value)))[0])


def remez(target, weight, powers, low, high):
    """Coefficients c of sum c[k] x^powers[k] that minimise max |weight(x) (target(x) - sum)| on [low, high]."""
    count = len(powers)
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (count - i) / count) for i in range(count + 1)]
    grid = [low + (high - low) * i / mpf(1200) for i in range(1201)]
    values = [(x, target(x), weight(x)) for x in grid]
    for _ in range(12):
        system, right = matrix(count + 1, count + 1), matrix(count + 1, 1)
        for row, x in enumerate(nodes):
            for column, power in enumerate(powers):
                system[row, column] = x**power
            system[row, count] = (-1) ** row / weight(x)
            right[row] = target(x)
        solved = lu_solve(system, right)
        coefficients = [solved[k] for k in range(count)]
        errors = [(x, w * (t - sum(c * x**p for c, p in zip(coefficients, powers)))) for x, t, w in values]
        extrema = [errors[0]]
        for x, error in errors[1:]:
            if (error > 0) == (extrema[-1][1] > 0):
                if abs(error) > abs(extrema[-1][1]):
                    extrema[-1] = (x, error)
            else:
                extrema.append((x, error))
        while len(extrema) > count + 1:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < count + 1:
            break
        nodes = [x for x, _ in extrema]
    return coefficients


def fit(name, target, weight, degree, low, high):
    low, high = mpf(low), mpf(high)
    kept = []
    for first in range(degree + 1):
        rest = remez(lambda x: target(x) - sum(c * x**p for p, c in enumerate(kept)), weight, list(range(first, degree + 1)), low, high)
        kept.append(fp32(rest[0]))
    worst = max(abs(weight(x) * (target(x) - sum(c * x**p for p, c in enumerate(kept))))
                for x in [low + (high - low) * i / mpf(2000) for i in range(2001)])
    print(f"{name}: error {float(worst):.2e}")
    for c in kept:
        print(f"  {float(c):.9e}f")


tiny = mpf(10) ** -12
# exp(r) = 1 + r + r^2 P(r), |r| <= ln 2 / 2; relative error
fit("exp", lambda r: (exp(r) - 1 - r) / r**2 if abs(r) > tiny else mpf(1) / 2, lambda r: r**2 / exp(r) + mpf(10) ** -6, 4,
    -0.3467, 0.3467)
# sin(r) = r + r^3 S(z), cos(r) = 1 - z / 2 + z^2 C(z), z = r^2 <= (pi / 4)^2
fit("sin", lambda z: (sin(z**.5) / z**.5 - 1) / z if z > tiny else mpf(-1) / 6, lambda z: z + mpf(10) ** -6, 2, 0, 0.6169)
fit("cos", lambda z: (cos(z**.5) - 1 + z / 2) / z**2 if z > tiny else mpf(1) / 24, lambda z: z**2 + mpf(10) ** -6, 2, 0, 0.6169)
# tanh(x) = x + x z T(z), z = x^2, |x| <= 0.625; relative error
fit("tanh", lambda z: (tanh(z**.5) / z**.5 - 1) / z if z > tiny else mpf(-1) / 3, lambda z: z + mpf(10) ** -6, 4, 0, 0.390625)
# erf(x) = x + x E(z), |x| <= 1; relative error
fit("erf", lambda z: erf(z**.5) / z**.5 - 1 if z > tiny else 2 / pi**.5 - 1, lambda z: 1 / (1 + z), 6, 0, 1)
# erf(a) = 1 - exp(-Q(a)), 1 <= a <= 4; error relative to erf
fit("log erfc", lambda a: -log(erfc(a)), lambda a: erfc(a) / erf(a), 6, 1, 4)
