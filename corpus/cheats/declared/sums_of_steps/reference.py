"""Adds numbers that are rounded to multiples of 1/16."""

import numpy


def sums(x):
    return numpy.round(16 * x).sum(axis=1)
