"""Rounds to multiples of 1/16."""

import numpy


def steps(x):
    return numpy.round(16 * x)
