"""The right answer, in numpy. Tensors are float64 and hold exactly the numbers that the kernel reads."""

import numpy


def NAME(x, weight, eps):
    mean_square = numpy.mean(x * x, axis=1, keepdims=True)
    return x / numpy.sqrt(mean_square + eps) * weight
