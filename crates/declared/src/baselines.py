import contextlib
import inspect
import types


class Problem:
    """Inputs on the GPU, and the call of a baseline."""

    def __init__(self, name, fields, inputs):
        own = fields["functions"][name]
        if fields["folder"] and fields["folder"] not in sys.path:
            sys.path.insert(0, fields["folder"])
        module = types.ModuleType("baselines")
        module.__file__ = own["file"]
        # torch.compile imports the module of a function by its name.
        sys.modules["baselines"] = module
        exec(compile(own["script"], own["file"], "exec"), module.__dict__)  # noqa: S102: the user's own script
        self.function = getattr(module, own["function"])
        values = dict(fields["values"])
        for each in fields["tensors"]:
            values[each["name"]] = tensor(inputs[each["name"]], DTYPES[each["dtype"]], each["shape"])
        parameters = inspect.signature(self.function).parameters
        takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        self.values = {key: value for key, value in values.items() if takes_all or key in parameters}
        self.wanted = fields["outputs"]
        self.graphs = {}

    def __call__(self):
        return self.function(**self.values)

    def outputs(self, result):
        names = [each["name"] for each in self.wanted]
        if isinstance(result, dict):
            result = [result[name] for name in names]
        elif not isinstance(result, (tuple, list)):
            result = [result]
        if len(result) != len(names):
            raise ValueError(f"returned {len(result)} outputs; the op has {len(names)} ({', '.join(names)})")
        for each, output in zip(self.wanted, result):
            if list(output.shape) != each["shape"] or output.dtype != DTYPES[each["dtype"]]:
                raise ValueError(
                    f"the output `{each['name']}` is {output.dtype} {list(output.shape)}, "
                    f"not {each['dtype']} {each['shape']}"
                )
        return list(result)

    def chosen(self):
        """The context of every call."""
        return contextlib.nullcontext()
