"""Where a Python expression's value lives: on the device, on the host, or unknown.

What is assumed: `.cuda()` and a device string or variable that mentions cuda (xpu, mps, hpu, npu)
put a value on the device; `torch.randn(...)` without a device makes a host tensor unless the file
sets a default device; the result of a computation lives where an operand known to be on the device
lives; CuPy, JAX and MLX arrays are on the device and NumPy arrays on the host. A model of the file
that is never moved is a host model only if the file builds it and no call moves it.
"""

import re

from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    callee_text,
    keyword,
    last_segment,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node

DEVICE, HOST, UNKNOWN = "device", "host", "unknown"
# Not in words such as input, dumps and chip.
_ON_DEVICE = re.compile(r"cuda|gpu|xpu|(?<![a-z])(mps|hpu|npu|hip|musa\b)", re.IGNORECASE)
_ARRAY_MODULES = re.compile(r"^(cupy|cupyx|jax|jnp|mlx|cp|mx)(\.|$)")
_DEPTH = 7
# What manages the memory, the plans and the devices of arrays, and holds none itself.
_RUNTIME_OF_ARRAYS = re.compile(
    r"(cupyx?|cp)\.(get_default_(pinned_)?memory_pool|fft\.config\b|cuda\.(runtime|device|driver)\."
    r"|cuda\.(Device|MemoryPool|PinnedMemoryPool|MemoryAsyncPool|set_\w+|get_\w+|is_\w+)\b|show_config)"
    r"|jax\.(local_)?(devices|device_count)$"
)
RPC = "torch.distributed.rpc"
_A_MEMBER = ("subscript", UNKNOWN)
# A key that is the same wherever it is written: a text or a constant, and no counter.
_SAME_KEY = re.compile(r"\[\s*([\"'][^\"']*[\"']|[A-Z][A-Z0-9_]*)\s*\]$")
# Attributes of a tensor that the host knows.
_ABOUT = (".shape", ".ndim", ".dtype", ".nbytes", ".itemsize", ".is_cuda", ".requires_grad")


# What these return is a number of the host, whatever they are asked of.
_NUMBERS = frozenset(("size", "numel", "shape", "dim", "len", "element_size", "stride",
                      "storage_offset", "data_ptr", "nelement", "ndimension", "is_contiguous",
                      "get_device", "elapsed_time", "get_elapsed_time"))  # fmt: skip


# Comments and literal texts; what a C++ file includes counts as code.
_NO_CODE = {
    "python": re.compile(
        r"#[^\n]*|\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
    ),
    "cuda": re.compile(
        r"(?P<kept>^[ \t]*#[ \t]*include\b[^\n]*)|//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"",
        re.DOTALL | re.MULTILINE,
    ),
}


# What is written beside the code: comments, and texts that stand by themselves.
_REMARKS = re.compile(
    r"#[^\n]*|^[ \t]*[rR]?(?:\"\"\".*?\"\"\"|'''.*?''')"
    r"|(?P<kept>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
    re.DOTALL | re.MULTILINE,
)
# torch.cuda.FloatTensor(3, 4)
_TYPED = re.compile(r"torch\.(cuda|xpu|npu|musa)\.[A-Z]\w*Tensor$")
# What brings a tensor to the host, and leaves it one.
_FETCHED = re.compile(
    r"\.(cpu\(\)|to\([\"']cpu[\"']\))(\.(contiguous|clone|detach|pin_memory|t)\(\))*$"
)
# Calls that make a record of settings.
_SETTINGS = re.compile(r"(?i:config|options|settings|arguments)$|(?<![a-z])[Aa]rgs$|[Pp]arams$")
# Classes whose objects, by their names, stand for what another process does.
_ELSEWHERE = re.compile(r"([sS]ubprocess|Process(?!or|ing)|Remote|Rpc|RPC)\w*$|Client$")
# What a variable called device is given, and what makes that a device of the host.
_BOUND = re.compile(r"\bdevice\b\s*(?::[^=\n]+)?=(?!=)\s*([^\n]*)")
_STATED = re.compile(r"^[ \t]*device\s*(?::[^=\n]+)?=(?!=)\s*([^\n]*[^\s,])$", re.MULTILINE)
_HOST_DEVICE = re.compile(r"((\w+\.)?device\(\s*)?[\"']cpu[\"']\s*[,)]*\s*$")


def mentions_device(text: str, language: str) -> bool:
    """Whether a file computes on a device, by words of its code that mean nothing else in it.

    Comments and docstrings are no evidence, nor is the word "gpu" where nothing computes on one,
    nor a variable called `device` that holds nothing but "cpu".
    """
    code = _NO_CODE[language].sub(lambda m: m.groupdict().get("kept") or " ", text)
    if language == "python":
        told = _REMARKS.sub(lambda m: m["kept"] or " ", text)
        if words.DEVICE_EVIDENCE[language].search(told):
            return True
        if words.DEVICE_LIBRARY.search(code) and _names_device(code, told):
            return True
        if _states_host(told):
            code = words.TRAINS_ANYWHERE.sub("", code)
    elif words.DEVICE_EVIDENCE[language].search(text):
        return True
    return words.DEVICE_EVIDENCE_IN_CODE[language].search(code) is not None


def _states_host(told: str) -> bool:
    """Whether a Python file gives its `device` one value, "cpu", wherever it gives it one.

    What else an argument device= is given does not count.
    """
    stated = [v for v in _STATED.findall(told) if v.count("(") == v.count(")")]
    return bool(stated) and all(_HOST_DEVICE.match(value) for value in stated)


def _names_device(code: str, told: str) -> bool:
    """Whether a Python file that can compute on a device names one, or may be given one."""
    if words.DEVICE_TEXT.search(told):
        return True
    if not words.DEVICE_VARIABLE.search(code):
        return False
    if _states_host(told):
        return False
    bound = [value.strip() for value in _BOUND.findall(told)]
    bound = [value for value in bound if not re.match(r"device\b", value)]
    return not bound or not all(_HOST_DEVICE.match(value) for value in bound)


# Where a program that computes with torch makes or loads a model of its own.
_BUILDS_MODEL = re.compile(
    r"model\w*\s*=\s*[\w.]*\.from_pretrained\(|Model\w*\.from_pretrained\(|\bmodels\.(__dict__|[a-z]\w+\()"
    r"|\bcreate_model\(|torch\.hub\.load\(|torch\.jit\.load\(|nn\.Sequential\(|\((torch\.)?nn\.Module\)"
)
# One of these stands in whatever _BUILDS_MODEL matches.
_BUILDS_WORDS = (
    *(".from_pretrained(", "models.", "create_model(", "hub.load(", "jit.load("),
    *("nn.Sequential(", "nn.Module)"),
)
# Whatever may put a model or its inputs on a device, or wait for one.
_MOVES_ANYTHING = re.compile(
    r"\.(cuda|xpu|hpu|npu|mps|ipu|to_device|device_put)\(|\bcuda\.(synchronize|Event|Stream|nvtx)"
    r"|device_map|DataParallel|[aA]ccelerat(or|e\.)|deepspeed|default_device|default_tensor_type"
    r"|\bpipeline\(|set_device|init_inference|\bTrainer|lightning|\bvllm\b|fabric"
    r"|torch\.(xpu|mps|hpu|npu|accelerator)\.synchronize|to_empty|\bdevice\s*\("
)
_TO = re.compile(r"\.to\(([^()]*(?:\([^()]*\)[^()]*)*)")
_GIVES_DEVICE = re.compile(r"\b\w*device\w*\s*=(?!=)\s*([^\n,)]*)")
# What has a device as an option of its own, wherever it is itself: args.device, model_cfg.device.
_OPTIONS = re.compile(r"(^|[._])(args|opts?|options|cfg|conf|config|settings|params|flags)$", re.I)
_ABOUT_HOST = re.compile(r"((\w+\.)?device\(\s*)?[\"']cpu[\"']|None\b")


def stays_on_host(text: str) -> bool:
    """Whether a Python file makes a torch model and has nothing that could move it, or its inputs.

    A file that only asks whether there is a device, or has an option called gpu, computes on the
    host. What it imports does not count: a model that was made here is moved here.
    """
    if not any(word in text for word in _BUILDS_WORDS):
        return False
    told = _REMARKS.sub(lambda m: m["kept"] or " ", text)
    if not _BUILDS_MODEL.search(told) or _MOVES_ANYTHING.search(told):
        return False
    moves = [given.strip() for given in _TO.findall(told) if not is_dtype(given)]
    named = [given.strip() for given in _GIVES_DEVICE.findall(told)]
    return all(_ABOUT_HOST.match(given) or _follows(given, told) for given in (*moves, *named))


def _follows(device: str, code: str) -> bool:
    """Whether a device is that of what the file loads: x.to(model.device), device=model.device."""
    given = rf"^[ \t]*{re.escape(device)}\s*=(?!=)\s*(\S*)[ \t]*$"
    holders = [_HOLDER.fullmatch(text) for text in re.findall(given, code, re.MULTILINE)]
    holders = holders or [_HOLDER.fullmatch(device)]
    return all(
        holder is not None
        and re.search(rf"^[ \t]*{holder[1]}\s*=\s*[\w.]+\.from_pretrained\(", code, re.MULTILINE)
        for holder in holders
    )


_HOLDER = re.compile(r"(\w+)\.device")


_DEFAULT_ON_DEVICE = re.compile(
    r"set_default_device\(\s*[\"'](cuda|xpu|mps)|set_default_tensor_type\(.*cuda"
    r"|torch\.device\([\"']cuda[^)]*\)\s*:"
)


def _default_device(text: str) -> str:
    """Where a file makes tensors of which it does not say where: set_default_device(device)."""
    if _DEFAULT_ON_DEVICE.search(text):
        return DEVICE
    named = re.findall(r"set_default_device\(\s*(\w+)\s*\)", text)
    values = [v for name in named for v in re.findall(rf"\b{name}\s*=(?!=)\s*([^\n]*)", text)]
    if any(_ON_DEVICE.search(value) for value in values):
        return DEVICE
    return UNKNOWN if named else HOST


class Devices:
    """Answers `of(node, scope)`; remembers its answers."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self._known: dict[int, str] = {}
        self._asked: set[int] = set()  # which are being worked out
        self._cut = False  # whether an answer was left open for the depth or for a cycle
        text = scopes.tree.code
        self.default = _default_device(text)
        # Without a map of devices, torch.distributed.rpc carries tensors of the host only.
        self.host_rpc = "device_map" not in text and any(
            full.startswith(RPC) for full in scopes.imports.values()
        )

    def of(self, node: Node, scope: Scope, depth: int = 0) -> str:
        """DEVICE, HOST or UNKNOWN for the value of `node` in `scope`."""
        key = id(node)
        if key in self._known:
            self._cut |= key in self._asked
            return self._known[key]
        if depth > _DEPTH:
            self._cut = True
            return UNKNOWN
        self._known[key] = UNKNOWN  # a value that depends on itself says nothing
        self._asked.add(key)
        cut, self._cut = self._cut, False
        result = self._known[key] = self._of(node, scope, depth + 1)
        self._asked.remove(key)
        if result == UNKNOWN and self._cut and depth:
            del self._known[key]  # asked by itself, more may be known
        self._cut |= cut
        return result

    def _of(self, node: Node, scope: Scope, depth: int) -> str:
        kind = node.kind
        if kind in ("string", "number", "dict", "lambda", "bool", "not"):
            return HOST
        if kind == "compare":  # of tensors a tensor: (logits.argmax(1) == labels).sum()
            found = self.join([self.of(child, scope, depth) for child in node.children])
            return found if found == DEVICE else HOST
        if kind == "name":
            return self._name(node, scope, depth)
        if kind == "call":
            return self._call(node, scope, depth)
        if kind == "attribute" and node.text.endswith(_ABOUT):
            return HOST
        outputs = words.PIPELINE_OUTPUTS
        if kind == "attribute" and node.text.endswith(outputs) and "output_type" not in node.text:
            return HOST  # what a pipeline returns
        if kind in ("subscript", "attribute", "await", "unary"):
            found = self.of(node.children[0], scope, depth) if node.children else UNKNOWN
            return self._kept(node, scope, depth) if (kind, found) == _A_MEMBER else found
        if kind in ("binary", "tuple", "list", "cond", "named", "keyword"):
            return self.join([self.of(child, scope, depth) for child in node.children])
        if kind == "comp":
            return self.of(node.children[0], scope, depth) if node.children else UNKNOWN
        return UNKNOWN

    def _kept(self, node: Node, scope: Scope, depth: int) -> str:
        """Where the values live that the file keeps under the key of a record: parts["host"]."""
        if not _SAME_KEY.search(node.text):
            return UNKNOWN
        pairs = self.scopes.assignments(squeeze(node.text), scope)
        kept = [value for _, value in pairs if value.text != "None"]
        return self.join([self.of(value, self.scopes.scope_of(value), depth) for value in kept])

    @staticmethod
    def join(found: list[str]) -> str:
        """DEVICE if any is, else UNKNOWN if any is, else HOST."""
        if DEVICE in found:
            return DEVICE
        return UNKNOWN if UNKNOWN in found or not found else HOST

    def _name(self, node: Node, scope: Scope, depth: int) -> str:
        text = squeeze(node.text)
        if text in ("True", "False", "None") or text.endswith(_ABOUT):
            return HOST
        full = self.scopes.resolve(text)
        if _ARRAY_MODULES.match(full) or re.fullmatch(r"torch\.cuda\.\w+Tensor", full):
            return DEVICE
        if full.startswith("numpy."):
            return HOST
        parts = text.split(".")
        keys = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        for key in keys:
            if key in ("self", "cls"):
                break
            found = self._variable(node, key, scope, depth)
            if found != UNKNOWN:
                return found
        return UNKNOWN

    def _variable(self, node: Node, key: str, scope: Scope, depth: int) -> str:
        pairs = self.scopes.assignments(key, scope)
        before = [
            pair
            for pair in pairs
            if pair[0].end <= node.start and not pair[1].start <= node.start < pair[1].end
        ]
        # batch = None: nothing is there yet.
        before = [pair for pair in before if pair[1].text != "None"] or before
        if pairs and not before and key in scope.parameters:  # x = x - x.min()
            given = self.scopes.argument_values(scope, key)
            if given:
                return self.join([self.of(v, self.scopes.scope_of(v), depth) for v in given[:4]])
        found = [
            self._assigned(target, value, self.scopes.scope_of(value), depth)
            for target, value in (before or pairs)[-3:]
        ]
        if not found:
            loop_value = self.iterated(key, scope, node)
            if loop_value is not None:
                return self.of(_numbered(loop_value, key), scope, depth)
        if not found and key in scope.parameters:
            passed = self.scopes.argument_values(scope, key)
            found = [self.of(v, self.scopes.scope_of(v), depth) for v in passed[:4]]
            return self.join(found) if found else UNKNOWN
        # x = torch.randn(...); x = x.cuda(): the later assignment decides.
        if before and found:
            return found[-1] if found[-1] != UNKNOWN else self.join(found)
        if found:
            moved = self._moved_in_place(key)
            return DEVICE if moved else self.join(found)
        return UNKNOWN

    def _assigned(self, target: Node, value: Node, scope: Scope, depth: int) -> str:
        """Where the part of `value` lives that `target` gets: loss of `logits, loss = run()`."""
        group = target.parent
        if value.kind == "call" and group is not None and group.kind in ("tuple", "list"):
            function = self.scopes.called_function(value, scope)
            returned = self._returns(function) if function is not None else []
            same = [
                v for v in returned if v.kind == "tuple" and len(v.children) == len(group.children)
            ]
            if function is not None and same and len(same) == len(returned):
                at = next(i for i, part in enumerate(group.children) if part is target)
                found = self.join([self.of(v.children[at], function, depth) for v in same[:3]])
                if found != UNKNOWN:
                    return found
        return self.of(value, scope, depth)

    @staticmethod
    def _returns(function: Scope) -> list[Node]:
        """The values that a function of the file returns."""
        if function.node.kind == "lambda" and function.body is not None:
            return [function.body]
        return [n.children[0] for n in function.nodes if n.kind == "return" and n.children]

    def iterated(self, key: str, scope: Scope, node: Node) -> Node | None:
        """The iterable of the loop around `node` that binds `key`."""
        for parent in node.ancestors():
            header = parent.child("comp_for") if parent.kind == "comp" else parent
            if parent.kind in ("for", "comp") and header and len(header.children) >= 2:
                target, iterable = header.children[0], header.children[1]
                if any(leaf.text == key for leaf in target.walk() if leaf.kind == "name"):
                    return iterable
        return None

    def _moved_in_place(self, key: str) -> bool:
        return bool(
            re.search(
                rf"(?<![\w.]){re.escape(key)}\s*\.\s*(cuda\(|to\(\s*[\"']?(cuda|device))",
                self.scopes.tree.code,
            )
        )

    def _call(self, node: Node, scope: Scope, depth: int) -> str:
        callee = callee_text(node)
        short = last_segment(callee)
        full = self.scopes.resolve(callee)
        if short in ("cuda", "xpu", "mps", "hpu", "npu") and "." in callee:
            return DEVICE
        if short in (
            "cpu",
            "numpy",
            "to_numpy",
            "item",
            "tolist",
            "asnumpy",
            "copy_to_host",
            "get",
            "pin_memory",
        ):
            return HOST
        if self._makes_text(node, callee, short) or words.TOKENIZER.search(callee):
            return HOST
        if _TYPED.match(full):
            return UNKNOWN  # on the device, to be summed over ranks or read by functions unseen
        if self.host_rpc and (full.startswith(RPC) or short in ("to_here", "local_value")):
            return HOST
        if short == "to":
            return self._to(node, scope, depth)
        if short == "type" and positional(node):
            kind = self.scopes.resolve(squeeze(positional(node)[0].text))
            if re.fullmatch(r"torch\.\w+Tensor", kind):
                return HOST  # x.type(torch.LongTensor)
        if short in _NUMBERS or _RUNTIME_OF_ARRAYS.match(full):
            return HOST
        if _ARRAY_MODULES.match(full) and "(" not in full:  # no method of what it returns
            return DEVICE
        if full.startswith("numpy."):
            return HOST
        if full == "torch.load":  # to where it was saved from, if it is told of no other place
            where = keyword(node, "map_location")
            return self.device_argument(where, scope, depth) if where is not None else UNKNOWN
        device = keyword(node, "device")
        if device is not None:
            # Settings say where others are to compute.
            settings = _SETTINGS.search(short) or _ELSEWHERE.search(short)
            return HOST if settings else self.device_argument(device, scope, depth)
        if words.FACTORY.match(short) and full.startswith("torch."):
            if short.endswith("_like") or short in ("as_tensor", "asarray"):
                given = positional(node)
                return self.of(given[0], scope, depth) if given else self.default
            return self.default
        if short in ("from_numpy", "frombuffer", "from_file"):
            return HOST
        if short == "to_device" and full.startswith(("numba.", "cuda.")):
            return DEVICE
        return self._result(node, callee, full, scope, depth)

    @staticmethod
    def _makes_text(node: Node, callee: str, short: str) -> bool:
        """Whether a call is a method of a literal text, or of a tokenizer that returns text."""
        function = node.children[0]
        literal = function.kind == "attribute" and function.children
        if literal and function.children[0].kind == "string":
            return True
        return short in ("decode", "batch_decode") and "token" in callee

    def _result(self, node: Node, callee: str, full: str, scope: Scope, depth: int) -> str:
        head = full.partition(".")[0]
        if full.startswith("torch.optim") or re.search(r"(^|\.)optim\w*\.", callee):
            return UNKNOWN
        if head in words.HOST_MODULES or callee in words.HOST_CALLS:
            return HOST
        local = self.scopes.called_function(node, scope)
        if local is not None:
            returned = self._returned(local, depth)
            if returned != UNKNOWN:
                return returned
        function = node.children[0]
        short = last_segment(callee)
        if local is None and words.TELLS_OF_OBJECT.match(short):
            return HOST
        operands = [self.of(arg, scope, depth) for arg in positional(node)]
        receiver = UNKNOWN
        if function.kind == "attribute" and function.children:
            receiver = self.of(function.children[0], scope, depth)
            operands.append(receiver)
        elif function.kind == "name" and "." in function.text and head not in self.scopes.imports:
            operands.append(self._receiver(function, scope, depth))
        elif function.kind == "name" and "." not in function.text:
            operands.append(self._name(function, scope, depth))
        operands = [o for o in operands if o != HOST] or operands[:1]
        if DEVICE in operands:
            return DEVICE
        if self.host_rpc and short == "wait" and operands == [HOST]:
            return HOST  # what comes back to a future
        if receiver == HOST and short in words.HOST_METHODS | {"astype"}:
            return HOST  # x.numpy().reshape(a, b), whatever a is
        if full.startswith("torch.nn.") and re.match(r"[A-Z]", last_segment(full)):
            return DEVICE if self._spreads(node, full) else self.default
        if operands == [HOST] and full.startswith("torch."):
            return HOST
        return UNKNOWN

    @staticmethod
    def _spreads(node: Node, full: str) -> bool:
        """Whether a model is wrapped that is on devices: DataParallel, and its like with ids."""
        if not full.endswith("DataParallel"):
            return False
        return keyword(node, "device_ids") is not None or not full.endswith(
            "DistributedDataParallel"
        )

    def _returned(self, function: Scope, depth: int) -> str:
        """Where the values that a function of the file returns live."""
        found = [self.of(value, function, depth) for value in self._returns(function)[:3]]
        return self.join(found) if found and function.short_name != "forward" else UNKNOWN

    def _receiver(self, function: Node, scope: Scope, depth: int) -> str:
        key = squeeze(function.text).rpartition(".")[0]
        found = self._variable(function, key, scope, depth)
        while found == UNKNOWN and "." in key and not key.startswith("self."):
            key = key.rpartition(".")[0]
            found = self._variable(function, key, scope, depth)
        return found

    def _to(self, node: Node, scope: Scope, depth: int) -> str:
        device = keyword(node, "device")
        given = positional(node)
        if device is None and given:
            device = given[0]
        function = node.children[0]
        if device is None or self.is_type(device, scope):
            return (
                self.of(function, scope, depth)
                if function.kind == "attribute"
                else self._receiver(function, scope, depth)
            )
        return self.device_argument(device, scope, depth)

    def was_fetched(self, value: Node, scope: Scope, depth: int = 0) -> bool:
        """Whether a value is a tensor that was brought to the host, or made of such a one there."""
        if depth > _DEPTH or self.of(value, scope) == DEVICE:
            return False
        if value.kind == "call":
            if _FETCHED.search(squeeze(value.text)):
                return True
            if self.scopes.resolve(callee_text(value)).startswith("torch."):
                return any(self.was_fetched(v, scope, depth + 1) for v in positional(value))
        name = re.match(r"\w+", value.text)
        made = self.scopes.assignments(name[0], scope) if name else []
        return bool(made) and all(self.was_fetched(v, scope, depth + 1) for _, v in made)

    def is_type(self, given: Node, scope: Scope) -> bool:
        """Whether what `.to()` is given is a type: by its name, or by what its name is given."""
        if is_dtype(given.text):
            return True
        values = self.scopes.assignments(squeeze(given.text), scope) if given.kind == "name" else []
        return bool(values) and all(
            value.kind == "name" and self.scopes.resolve(value.text).startswith("torch.")
            for _, value in values
        )

    def device_argument(self, device: Node, scope: Scope, depth: int = 0) -> str:
        """Where the device that an argument names is."""
        text = device.text
        if depth > _DEPTH:
            return UNKNOWN
        if device.kind == "string":
            return DEVICE if _ON_DEVICE.search(text) else HOST if "cpu" in text else UNKNOWN
        if _ON_DEVICE.search(text):
            return DEVICE
        if device.kind == "number":
            return DEVICE
        if re.search(r"[\"']cpu[\"']", text):
            return HOST
        if device.kind == "name":
            key = squeeze(text)
            if key.endswith(".device") and not _OPTIONS.search(key[: -len(".device")]):
                found = self._variable(device, key[: -len(".device")], scope, depth)
                if found != UNKNOWN:
                    return found
            return self._device_variable(device, key, scope, depth)
        return UNKNOWN

    def _device_variable(self, node: Node, key: str, scope: Scope, depth: int) -> str:
        pairs = self.scopes.assignments(key, scope)
        texts = [value.text for _, value in pairs]
        if any(_ON_DEVICE.search(text) for text in texts):
            return DEVICE
        if texts and all(re.search(r"[\"']cpu[\"']", text) for text in texts):
            return HOST
        for around in scope.enclosing():
            if key in around.parameters:
                head = around.node.child("params")
                if head and re.search(rf"\b{key}\b[^,]*=\s*[\"'](cuda|xpu|hpu|mps)", head.text):
                    return DEVICE
                passed = self.scopes.argument_values(around, key)
                found = [
                    self.device_argument(v, self.scopes.scope_of(v), depth + 1) for v in passed[:4]
                ]
                return self.join(found) if found else UNKNOWN
        for _, value in pairs:
            if value.kind in ("name", "call"):
                inner = [n for n in value.walk() if n.kind == "name" and squeeze(n.text) != key]
                for leaf in inner[:3]:
                    found_one = self.device_argument(leaf, scope, depth + 1)
                    if found_one != UNKNOWN:
                        return found_one
        return UNKNOWN


def _numbered(listed: Node, key: str) -> Node:
    """What a loop goes through that `enumerate` numbers; that itself for the number."""
    if listed.kind != "call" or callee_text(listed) != "enumerate" or listed.parent is None:
        return listed
    target = listed.parent.children[0]
    numbers = target.kind == "tuple" and squeeze(target.children[0].text) == key
    return listed if numbers else (positional(listed) or [listed])[0]


def is_dtype(text: str) -> bool:
    """Whether an argument of `.to()` names a type and not a device."""
    return bool(
        re.search(
            r"dtype|float|half|bf16|bfloat|fp16|fp32|fp8|\bint|uint|\bbool|double"
            r"|complex|channels_last|memory_format",
            text,
        )
    ) and not re.search(r"device|cuda", text)
