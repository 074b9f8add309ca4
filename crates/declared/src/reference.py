"""Calls the reference of an op: one request and one reply after the other over a private socket.

crates/subprocess/src/wire.py replaces the line WIRE and has the socket. Everything that the reference prints goes to
standard output, which is never taken for a reply.
"""

import sys

# With `python -c` the current folder comes first; a file there must not take the place of a module.
sys.path[:] = [folder for folder in sys.path if folder]

import inspect  # noqa: E402
import resource  # noqa: E402
import traceback  # noqa: E402
import types  # noqa: E402

# WIRE

try:
    import numpy
except Exception as error:  # noqa: BLE001: any error while loading numpy is the reply
    receive()
    send({"missing": f"{type(error).__name__}: {error}"})
    sys.exit(0)

modules = {}


def function(request):
    """The function of the request. A script is loaded once."""
    key = request["file"], request["script"]
    if key not in modules:
        if request["folder"] and request["folder"] not in sys.path:
            sys.path.insert(0, request["folder"])
        module = types.ModuleType("reference")
        module.__file__ = request["file"]
        exec(compile(request["script"], request["file"], "exec"), module.__dict__)  # noqa: S102: the user's own script
        modules[key] = module
    found = getattr(modules[key], request["function"], None)
    if not callable(found):
        raise AttributeError(f"there is no function `{request['function']}` in {request['file']}")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(found, type) and issubclass(found, torch.nn.Module):
        return module_call(torch, found, modules[key])
    return found


def module_call(torch, kind, script):
    """A function of arrays that computes a PyTorch module, such as the `Model` of a problem of KernelBench.

    `get_init_inputs()` of the script gives the arguments of its constructor. Inputs with the names of parameters and
    buffers (`linear_weight` for `linear.weight`) are its weights; the others are the arguments of `forward`.
    """
    made = script.__dict__.get("get_init_inputs", list)()
    model = kind(*made) if not (len(made) == 2 and isinstance(made[1], dict)) else kind(*made[0], **made[1])
    model.eval()
    weights = {name.replace(".", "_"): name for name in model.state_dict()}
    forward = inspect.signature(model.forward).parameters

    def called(**values):
        tensors = {
            name: torch.from_numpy(numpy.array(value)) if isinstance(value, numpy.ndarray) else value
            for name, value in values.items()
        }
        floats = [each.dtype for each in tensors.values() if torch.is_tensor(each) and each.is_floating_point()]
        missing = [name for name in weights if name not in tensors]
        if missing:
            raise TypeError(
                f"`{kind.__name__}` has the weight `{weights[missing[0]]}`; give the op an input `{missing[0]}`"
            )
        model.to(floats[0] if floats else torch.float64)
        model.load_state_dict({whole: tensors[name] for name, whole in weights.items()})
        with torch.no_grad():
            result = model(**{name: tensors[name] for name in forward if name in tensors})
        plain = lambda each: each.numpy() if torch.is_tensor(each) else each  # noqa: E731
        if isinstance(result, dict):
            return {name: plain(each) for name, each in result.items()}
        return tuple(map(plain, result)) if isinstance(result, (tuple, list)) else plain(result)

    by_name = inspect.Parameter.KEYWORD_ONLY
    named = [each.replace(kind=by_name) for each in forward.values()]
    # A weight that is not given has a message of its own.
    named += [inspect.Parameter(name, by_name, default=None) for name in weights]
    called.__signature__ = inspect.Signature(named)
    return called


class Inexact(numpy.ndarray):
    """Numbers whose operations have errors. A subclass says with `changed` what the result of an operation becomes."""

    random = None

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        plain = [bare(each) for each in inputs]
        if kwargs.get("where") is True:
            # `x.sum()` says so.
            del kwargs["where"]
        if method == "at" or "where" in kwargs:
            if out is not None:
                kwargs["out"] = tuple(map(bare, out))
            result = getattr(ufunc, method)(*plain, **kwargs)
            return self.same(result)
        result = getattr(ufunc, method)(*plain, **kwargs)
        if isinstance(result, tuple):
            result = tuple(self.same(numpy.asarray(each)) for each in result)
            for place, each in zip(out or (), result):
                numpy.copyto(numpy.asarray(place), numpy.asarray(each), casting="same_kind")
            return out or result
        if isinstance(result, (numpy.ndarray, numpy.generic)):
            is_elementwise = method == "__call__" and ufunc.signature is None
            result = self.changed(result, ufunc, plain, kwargs, is_elementwise)
        if out is None:
            return result
        numpy.copyto(numpy.asarray(out[0]), numpy.asarray(result), casting="same_kind")
        return out[0]

    def __array_function__(self, func, types, args, kwargs):
        return self.same(super().__array_function__(func, types, args, kwargs))


class Rounded(Inexact):
    """fp32 numbers. The result of an operation on elements is rounded up or down at random, with the exact result as the
    mean. Several runs show what other orders of operations can change, also where the usual order is exact by chance:
    the two sides of a difference round alike.
    """

    def same(self, result):
        return result.view(Rounded) if type(result) is numpy.ndarray and is_single(result) else result

    def changed(self, result, ufunc, operands, kwargs, is_elementwise):
        if result.dtype != numpy.float32:
            return result
        if is_elementwise:
            exact = ufunc(*[each.astype(float) if is_single(each) else each for each in operands], **kwargs)
            result = self.round(numpy.asarray(exact))
        return numpy.asarray(result).view(Rounded)

    def round(self, exact):
        nearest = exact.astype(numpy.float32)
        rest = exact - nearest
        other = numpy.nextafter(nearest, numpy.where(rest > 0, numpy.float32("inf"), -numpy.float32("inf")))
        chance = numpy.abs(rest) / numpy.abs(other.astype(float) - nearest)
        return numpy.where(Inexact.random.random(exact.shape) < chance, other, nearest)


class Moved(Inexact):
    """fp64 numbers. The result of an operation moves by a random share of it, unless fp32 has no rounding there: its
    operands and its result are numbers of fp32.
    """

    # Operations that have no rounding at all.
    choices = (
        {"absolute", "ceil", "clip", "copysign", "fabs", "floor", "fmax", "fmin", "maximum", "minimum", "negative"}
        | {"positive", "rint", "sign", "trunc"}
    )
    share = 0.0
    # Whether any operation on elements was seen: a function that converts its arguments, or takes their elements one by
    # one, computes with plain numbers.
    is_seen = False

    def same(self, result):
        return self.moved(result, is_rounded(result)) if type(result) is numpy.ndarray else result

    def changed(self, result, ufunc, operands, _kwargs, is_elementwise):
        Moved.is_seen = True
        result = numpy.asarray(result)
        if ufunc.__name__ in Moved.choices:
            return result.view(Moved)
        inexact = is_rounded(result)
        for each in operands:
            inexact = inexact | (is_rounded(each) if is_elementwise else numpy.any(is_rounded(each)))
        return self.moved(result, inexact)

    def moved(self, result, inexact):
        if result.dtype != numpy.float64:
            return result.view(Moved)
        moves = Moved.share * (2.0 * Inexact.random.random(result.shape) - 1.0)
        return numpy.where(inexact, result * (1.0 + moves), result).view(Moved)


def is_rounded(value):
    """Where fp32 does not have the number."""
    value = numpy.asarray(value, dtype=float)
    return value != value.astype(numpy.float32)


def bare(value):
    """The array as one of numpy's own class."""
    return value.view(numpy.ndarray) if isinstance(value, Inexact) else value


def is_single(value):
    return isinstance(value, numpy.ndarray) and value.dtype == numpy.float32


def given(request, attachments):
    """Every input, scalar, size and axis by name."""
    values = dict(request["values"])
    for argument, data in zip(request["arguments"], attachments):
        values[argument["name"]] = numpy.frombuffer(data, dtype=argument["dtype"]).reshape(argument["shape"])
    return values


def called_with(called, request, values):
    """The result. A reference that computes in fp32 shows the errors of fp32."""
    errors = request["errors"]
    if errors is None:
        return outputs(request, called(**values))
    Inexact.random = numpy.random.default_rng(errors["seed"])
    if errors["share"] is not None:
        Moved.share, Moved.is_seen = errors["share"], False
        result = called(**inexact(values, numpy.float64, Moved))
        if not Moved.is_seen or any(map(is_converted, parts(result))):
            raise TypeError("the reference converts its arguments")
        return outputs(request, result)
    try:
        # Results that are not finite or of another shape are refused here, too.
        return outputs(request, called(**inexact(values, numpy.float32, Rounded)))
    except Exception:  # noqa: BLE001: not every function takes arrays of another class
        return outputs(request, called(**values))


def parts(result):
    """The outputs of a reference, in any order."""
    if isinstance(result, dict):
        return result.values()
    return result if isinstance(result, (tuple, list)) else [result]


def is_converted(value):
    """Whether these are numbers whose last operations were not seen."""
    return not isinstance(value, Moved) and numpy.asarray(value).dtype.kind == "f"


def inexact(values, dtype, kind):
    is_number = lambda each: isinstance(each, numpy.ndarray) and each.dtype == dtype  # noqa: E731
    return {name: each.view(kind) if is_number(each) else each for name, each in values.items()}


def call(request, attachments):
    called = function(request)
    values = given(request, attachments)
    parameters = inspect.signature(called).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    unknown = [
        name
        for name, each in parameters.items()
        if name not in values
        and each.default is inspect.Parameter.empty
        and each.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ]
    if unknown:
        known = ", ".join(values)
        raise TypeError(f"the parameter `{unknown[0]}` is not an argument, size or axis of the op ({known})")
    values = {name: value for name, value in values.items() if takes_all or name in parameters}
    return called_with(called, request, values)


def outputs(request, result):
    wanted = request["outputs"]
    names = [each["name"] for each in wanted]
    if isinstance(result, dict):
        missing = [name for name in names if name not in result]
        if missing:
            raise ValueError(f"the returned dict has no `{missing[0]}` (outputs: {', '.join(names)})")
        result = [result[name] for name in names]
    elif isinstance(result, tuple) or (isinstance(result, list) and len(wanted) > 1):
        result = list(result)
    else:
        result = [result]
    if len(result) != len(wanted):
        raise ValueError(f"returned {len(result)} outputs; the op has {len(wanted)} ({', '.join(names)})")
    data, exact = [], []
    for each, array in zip(wanted, result):
        array = numpy.asarray(array)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"the output `{each['name']}` has the type {array.dtype}, not numbers")
        if list(array.shape) != each["shape"]:
            raise ValueError(f"the output `{each['name']}` has the shape {list(array.shape)}, not {each['shape']}")
        if each["dtype"] != "<f8":
            exact.append(integers(array, each["dtype"]))
        array = numpy.ascontiguousarray(array, dtype=numpy.float64)
        bad = ~numpy.isfinite(array)
        if bad.any():
            where = [int(index) for index in numpy.argwhere(bad)[0]]
            value = array[tuple(where)]
            raise ValueError(f"the output `{each['name']}` is {value} at {where}; a reference must be finite")
        data.append(array.tobytes())
    return data + exact


def integers(array, dtype):
    """The bytes of 64-bit integers. Floats do not have all of them, so their numbers decide; zeros say so."""
    if array.dtype.kind == "f":
        array = numpy.zeros(array.shape, dtype)
    return numpy.ascontiguousarray(array).astype(dtype).tobytes()


def place(request, error):
    """The innermost line of the user's script."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == request["file"]]
    if isinstance(error, SyntaxError) and error.filename == request["file"]:
        return error.lineno
    return lines[-1].lineno if lines else None


numpy.seterr(all="ignore")
while True:
    request, attachments = receive()
    limit = request["mib"] << 20
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or limit <= hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        replies = call(request, attachments)
    except MemoryError:
        send({"error": f"needs more memory than the limit of {request['mib']} MiB (`reference_mib` in op.toml)"})
    except BaseException as error:  # noqa: BLE001: the message goes to the user
        text = str(error).splitlines()
        message = f"{type(error).__name__}: {text[0] if text else ''}".rstrip(": ")
        send({"error": message, "line": place(request, error)})
    else:
        send({"numpy": numpy.__version__}, replies)
