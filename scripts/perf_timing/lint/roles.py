"""What one call or launch does that matters for a measurement.

A `Role` is one of the constants below; a node may have several. Whether an unknown function is GPU
work is decided on evidence, in this order: an operand known to be on the device; a name that
usually is a model or a kernel, in a file that mentions a device at all, with no operand known to be
on the host. Functions of the same file are not judged here; `flow` looks inside them.
"""

import re
from functools import cached_property

from perf_timing.lint import vocabulary as words
from perf_timing.lint.devices import (
    DEVICE,
    HOST,
    RPC,
    UNKNOWN,
    Devices,
    is_dtype,
    mentions_device,
    stays_on_host,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.scopes import (
    Scope,
    Scopes,
    base_name,
    callee_text,
    keyword,
    last_segment,
    positional,
    squeeze,
)

WORK = "work"  # puts work on the device and returns before it is done
BLOCKING = "blocking"  # device work that is done when the call returns
WAIT = "wait"  # an explicit wait for the device, a stream or an event
READ = "read"  # returns a value to the host and so waits for it
UPLOAD = "upload"  # beside READ: a blocking copy to the device
JOIN = "join"  # beside READ: waits for a thread, a queue or a handle
CLOCK = "clock"  # reads a host clock
RECORD = "record"  # records an event
ELAPSED = "elapsed"  # reads the time between two events
ALLOC = "alloc"  # makes a buffer
COPY = "copy"  # copies between host and device
IO = "io"  # writes to the terminal, a log or a file
COMPILE = "compile"  # compiles, builds or loads code
HARNESS = "harness"  # a benchmark helper that waits and warms up by itself
OPAQUE = "opaque"  # a callable that the caller passes in and that the file does not show
SLEEP = "sleep"
REPLAY = "replay"  # launches a captured graph
ARITHMETIC = "arithmetic"  # beside WORK: one elementwise operator
PHASE = "phase"  # beside BLOCKING: a whole pass or program of another file
SETUP = "setup"  # sets up a library: makes a handle or a plan
FILL = "fill"  # writes from the host into memory that the device reaches as well
LIKELY = "likely"  # beside WORK: by its name and the file, not by its operands


# What these modules do is not device work, whatever their arguments.
_RUNTIME = (
    "torch.cuda.", "torch.xpu.", "torch.mps.", "torch.accelerator.", "torch.backends",
    "torch.profiler",
    "torch.optim", "nvtx.", "cupy.cuda.", "torch.npu.", "torch.hpu.",
)  # fmt: skip


# An operator that a library has registered, whatever its name: torch.ops.library.Operator.
_REGISTERED = re.compile(r"torch\.ops\.\w+\.\w")
# All members are on one device, so one that is on the host speaks for all.
_JOINS = frozenset({"torch.cat", "torch.concat", "torch.stack", "torch.hstack", "torch.vstack"})
# What makes a function of a function, or says something about devices.
_TRANSFORMS = re.compile(
    r"jax\.(jit|pmap|vmap|grad|value_and_grad|make_jaxpr|eval_shape|checkpoint|remat|sharding\b"
    r"|(local_)?devices$|(local_)?device_count$|process_\w+$)"
)
# A whole pass or program of another file: it ends with numbers on the host.
_PHASE = re.compile(
    r"(main|train|fit|run|eval\w*|valid\w*|test)(_\w+)?_(loop|epochs?|model|main|training|logic"
    r"|experiments?|benchmarks?|suite)(_\w+)?$|main$|main_\w+$|train$|fit$|do_train\w*$"
    r"|prepare_for_\w+$"
)
# A trainer of a framework: its runs end with losses and metrics on the host.
_TRAINER = re.compile(
    r"(^|[._])trainer(_\w+|\d+)?\.(fit|train|evaluate|validate|test|predict)$", re.I
)
# Libraries of RAPIDS whose functions wait before they return, unless they are given a handle.
_WAITS_ITSELF = re.compile(r"(cuvs|pylibraft|cuml)\.")
# What searches for, or calibrates, another form of a model: minutes of work, read again and again.
_TUNES = re.compile(r"(^|_)(quanti[sz]e|calibrate|ptq|gptq|awq|prune|sparsify|distill)(_|$)")
_EVALUATES = re.compile(r"(eval|evaluate|validate|validation_loop)(_(?!mode)\w+)?$")
# A variable that holds a model, and functions that run one which they are given.
_A_MODEL = re.compile(
    r"^(\w+\.)*(\w*model(_(?!in|out|arg|kw|data|loss|pred|batch|feat|tensor|state)\w+)?|net|network|module|unet|vae|\w*transformer|\w*(en|de)coder"
    r"|backbone|pipe(line)?)$"
)
_A_LOADER = re.compile(r"loader(_\w+)?$", re.IGNORECASE)
_RUNS_MODEL = re.compile(
    r"run|forward|fwd|bwd|infer|generat|predict|train|step|bench|warm|test|eval|sampl|call|exec"
    r"|decode|encode|time|timing|profile|measure|fit|process|work|loop|iter|serve|do_|loss|apply"
    r"|simulat|rollout|denoise|render|kernel|attn|gemm|latency|speed|throughput|perf|epoch|gpu|cuda"
)
# What moves a model and the tensors that it is given.
_MOVES = re.compile(
    r"Accelerator\(|accelerate\.\w+\(|dispatch|device_map|DataParallel|deepspeed|default_device"
    r"|pipeline|\bpl\.|Fabric\("
)
_MAKES_TENSOR = re.compile(
    r"torch\.(ones|zeros|empty|full|rand|randn|randint|arange|tensor|from_numpy)(_like)?\("
)
# What makes an array of NumPy, and no number.
_NUMPY_ARRAY = re.compile(
    r"numpy\.(random\.\w+|zeros|ones|empty|full|arange|linspace|array|asarray|ascontiguousarray"
    r"|eye|identity|tile|repeat|random_sample|\w+_like)\b"
)
# What turns a tensor into a number of the host, and so reads it.
_CASTS = frozenset({"float", "int", "bool", "math.isnan", "math.isinf", "math.isfinite"})
# What gives a tensor of one member, which `if` or `assert` turns into a truth.
_DECIDES = re.compile(
    r"torch\.(any|all|isnan|isinf|isfinite|(is|count)_nonzero|max|min|sum|mean|norm)$"
)
_DECIDES_ALL = re.compile(
    r"torch\.(isnan|isinf|isfinite)\(.*\)\.(any|all)$"
    r"|[\w.]*(loss|norm)\w*\.(isnan|isinf|isfinite)(\(\)\.(any|all))?$"
)
# What reads the time between two events, by its last name: of torch, CuPy, PyCUDA and Numba.
_ELAPSED_TIMES = frozenset(
    {"elapsed_time", "get_elapsed_time", "time_till", "time_since", "event_elapsed_time"}
)
# A function of a library that gives the device work, as it is handed to a benchmark.
_OPERATOR = re.compile(
    r"torch\.((nn\.functional|linalg|fft|special|sparse|ops(\.\w+)+)\.)?"
    r"(?!(is|set|get|use|manual|no|enable|compile|load|save|device|jit|typename|from)_?)[a-z]\w*"
    r"|cupy\.((linalg|fft|random)\.)?[a-z]\w*"
    r"|jax\.(numpy|lax|nn)(\.\w+)?\.[a-z]\w*"
)
# Writers of TensorBoard, which copy a tensor to the host when they are given it.
_SUMMARIES = frozenset({"add_scalar", "add_scalars", "add_histogram", "add_image", "add_images"})


# What is written to a file as a picture, a film or a sound has come to the host.
_WRITES_MEDIA = re.compile(
    r"^(save|write|export|dump)_(\w+_)?(video|image|img|audio|wav|gif|png|mp4|mesh|grid|frame)s?"
    r"(_(grid|to_\w+))?$"
)
_COMPARES = re.compile(r"(check|assert)_(is_)?(equal|close|allclose|all_close|almost_equal)s?")
# A slice of an array of several dimensions.
_SLICED = re.compile(r"\[[^\[\]]*:[^\[\]]*,|\[[^\[\]]*,[^\[\]]*:")
# What a call is asked for to be given an array of the host.
_AS_ARRAY = re.compile(
    r"^(return|output|result)\w*=([\w.]*\.)?[\"']?(np|NP|numpy|NUMPY|Numpy)[\"']?$"
    r"|^(to|as|return|convert_to)_(np|numpy)=True$"
)
# What a call is told to do before it returns.
_UNTIL_DONE = re.compile(r"^(wait|blocking|sync|synchronize|block_until_ready)=True$")
# An object that takes times.
_A_TIMER = re.compile(r"(timer|stop_?watch)$", re.IGNORECASE)
# An object that works on the host by its name: CPUInfer.sync(), cpu_engine.submit(...).
_CPU_OBJECT = re.compile(r"^(self\.|\w+\.)?(CPU[A-Z]\w*|cpu_(?!count)\w+|\w+_cpu_\w+)\.\w+$")


def _is_condition(node: Node) -> bool:
    """Whether a branch hangs on the value of `node`, so that a tensor has to be read for it."""
    child = node
    for parent in node.ancestors():
        if parent.kind in ("if", "elif", "while", "assert"):
            return parent.children[0] is child
        if parent.kind not in ("not", "bool", "compare", "binary", "unary"):
            return False
        child = parent
    return False


def _last_given(values: list[Node], use: Node) -> list[Node]:
    """Of the values that a name is given, in order, the last one before a use.

    If that is in a branch of an `if`, those of its other branches too: any of them may have run.
    """
    if not values:
        return []
    choice = values[-1]
    for parent in values[-1].ancestors():
        if parent.start <= use.start and use.end <= parent.end:
            break
        if parent.kind == "if" and len(parent.children) > 2:
            choice = parent
    return [value for value in values if value.start >= choice.start]


_STREAM = re.compile(r"(std::)?(cout|cerr|clog)\s*<<")


def _streams_out(node: Node) -> bool:
    """Whether a statement of C++ writes to a stream of the terminal: std::cout << "done"."""
    inside = node.parent is not None and node.parent.kind in ("binary", "args")
    return not inside and _STREAM.match(node.text) is not None


def _for_cpu(node: Node, callee: str) -> bool:
    """Whether a call is one of an object that works on the host, or an argument of such a call."""
    if not node.tree.names_cpu:
        return False
    if _CPU_OBJECT.match(callee):
        return callee.rpartition(".")[2] in ("sync", "synchronize", "submit", "run", "infer")
    outer = next((p for p in node.ancestors() if p.kind in ("call", "block")), None)
    if outer is None or outer.kind != "call":
        return False
    around = callee_text(outer)
    return around.endswith(".submit") and bool(_CPU_OBJECT.match(around))


def _is_empty(node: Node) -> bool:
    """Whether a factory is asked for a tensor without elements: new_zeros((1, 0, hidden))."""
    given = positional(node)
    shape = given[0].children if given and given[0].kind in ("tuple", "list") else given
    name = last_segment(callee_text(node))
    sized = name in ("empty", "zeros", "ones") or name.startswith("new_")
    return sized and name != "new_tensor" and any(part.text == "0" for part in shape)


def _allocated(call: Node) -> str:
    """The variable that an allocation fills: x of cudaMalloc((void **)&x, n)."""
    return base_name(re.sub(r"^\(\s*\w+\s*\*+\s*\)", "", positional(call)[0].text))


_EMPTY_TASK = re.compile(r"->\*\s*\[[^\]]*\][^{;]*\{\s*\}")  # it gives the device nothing


class Roles:
    """Answers `of(node, scope)` for calls, launches and operators."""

    def __init__(
        self,
        scopes: Scopes,
        devices: Devices,
        sync_helpers: frozenset[str] = frozenset(),
        gpu_helpers: frozenset[str] = frozenset(),
        whole: str = "",
    ) -> None:
        self.scopes = scopes
        self.whole = whole or scopes.tree.text  # with functions that have no part in timing
        self.sync_helpers = sync_helpers
        self.gpu_helpers = gpu_helpers
        self.devices = devices
        self.python = scopes.language == "python"
        self.libraries = set(
            re.findall(
                r"\b(torch|cupy|jax|mlx|numba|triton|tensorflow|cutlass|flax|paddle)\b",
                scopes.tree.code,
            )
        )
        # When the calls of these return is not known here.
        self.foreign = (
            self.python
            and not self.libraries - {"tensorflow"}
            and words.is_foreign(scopes.tree.code)
        )
        # PyTorch/XLA only notes what is to be done; nothing is queued where a call returns.
        self.foreign |= self.python and bool(
            re.search(r"^\s*(import|from)\s+torch_xla\b", scopes.tree.code, re.MULTILINE)
            and not re.search(r"\bcuda\b", scopes.tree.code)
        )
        self.evidence = mentions_device(scopes.tree.code, scopes.language)
        if self.evidence and self.python and self.libraries == {"torch"}:
            self.evidence = not stays_on_host(self.whole)
        self._known: dict[int, frozenset[str]] = {}

    def of(self, node: Node, scope: Scope) -> frozenset[str]:
        """The roles of a node."""
        found = self._known.get(id(node))
        if found is None:
            known = self._configured(node)
            found = frozenset(known or (self._python if self.python else self._cpp)(node, scope))
            if self.foreign and not known:
                found -= {WORK, BLOCKING}
            self._known[id(node)] = found
        return found

    def _configured(self, node: Node) -> set[str]:
        """What the project's configuration says about a function's name."""
        if node.kind != "call" or not (self.sync_helpers or self.gpu_helpers):
            return set()
        name = callee_text(node)
        names = {name, last_segment(name), self.scopes.resolve(name)}
        if names & self.sync_helpers:
            return {WAIT}
        return {WORK} if names & self.gpu_helpers else set()

    # Python

    def _python(self, node: Node, scope: Scope) -> set[str]:
        if node.kind == "binary":
            return self._operator(node, scope)
        if node.kind != "call":
            return set()
        callee = callee_text(node)
        full = self.scopes.resolve(callee)
        short = last_segment(full) if "." in full else full
        if full in words.PYTHON_CLOCKS:
            return {CLOCK}
        if _for_cpu(node, callee):
            return set()
        if full.startswith(("torchvision.io", "torchvision.datasets", "torchvision.transforms")):
            return set()
        waits = words.WAIT_NAME.search(short) or words.CPP_ANY_WAIT.search(short)
        if full.startswith(_RUNTIME) and not waits:
            if short == "empty_cache":
                return {READ}  # it frees device memory, which waits for the device
            return self._events(node, callee, full, short, scope)
        for rule in (self._harness, self._waits, self._events, self._output, self._arrays):
            found = rule(node, callee, full, short, scope)
            if found:
                return found
        return self._compute(node, callee, full, short, scope)

    def _operator(self, node: Node, scope: Scope) -> set[str]:
        gap = self.scopes.tree.text[node.children[0].end : node.children[-1].start]
        if len(node.children) != 2:
            return set()
        where = self.devices.of(node, scope)
        if where == DEVICE:
            return {WORK} if "@" in gap else {WORK, ARITHMETIC}
        if "@" in gap and where == UNKNOWN and self.evidence:
            return {WORK, LIKELY}
        return set()

    def _harness(self, node: Node, callee: str, full: str, short: str, scope: Scope) -> set[str]:
        if words.HARNESS.search(full):
            return {HARNESS}
        if short in ("timeit", "repeat", "autorange") and "." in full:
            if full.startswith("timeit."):
                return set()
            # with timeit("forward"): a timer of another file, which neither waits nor repeats.
            return set() if node.parent is not None and node.parent.kind == "item" else {HARNESS}
        if full.endswith("cupyx.profiler.benchmark"):
            return {HARNESS}
        return set()

    def _waits(self, node: Node, callee: str, full: str, short: str, scope: Scope) -> set[str]:
        if full in words.PYTHON_WAITS or callee in words.PYTHON_WAITS:
            return {WAIT}
        if full.startswith("asyncio."):
            return set()  # it waits for what the host does
        if words.CPP_ANY_WAIT.search(short):
            return {WAIT}  # cudart.cudaStreamSynchronize(), handle.EventSynchronize()
        if short in ("sync", "synchronize") or (
            words.WAIT_NAME.search(short) and not words.NO_WAIT_NAME.search(short)
        ):
            return {WAIT, CLOCK} if re.search(r"time", short) else {WAIT}
        if full.endswith("multiprocessing.spawn"):  # it joins the processes unless told not to
            joins = keyword(node, "join")
            return {READ, JOIN} if joins is None or joins.text != "False" else {SLEEP}
        if _COMPARES.fullmatch(short) and len(positional(node)) >= 2:
            return {READ}  # that two tensors are equal is decided on the host
        if short in ("wait", "join", "result") and "." in callee and not positional(node):
            return {READ, JOIN}
        if words.JOIN_NAME.search(short):
            return {READ, JOIN}  # manager.offload_try_wait(), onboard_wait(handle)
        if full == f"{RPC}.rpc_sync" or (short == "to_here" and "." in callee):
            return {READ, JOIN}  # it returns when the other process has answered
        if short == "get" and "." in callee and not positional(node):
            return {READ} if "cupy" in self.libraries else {READ, JOIN}
        if words.OBJECT_COLLECTIVE.search(short):
            return {READ}  # objects of the host are exchanged: it returns when they are there
        if self._is_taichi and short == "to_numpy":
            return {READ, COPY}
        if short in words.READ_NAMES and (
            "." in callee or short in ("to_python_float", "device_get") or "nms" in short
            or short == "non_max_suppression"
        ):  # fmt: skip
            return self._read(node, full, short, scope)
        if short in ("decode", "convert_ids_to_tokens") and "token" in callee:
            given = [self.devices.of(arg, scope) for arg in positional(node)[:1]]
            return set() if given == [HOST] else {READ}
        if (
            re.search(
                r"(^|_)(transfer|to_device|to_dev|to_gpu|move_to|send_to_device"
                r"|batch_to_device)(_|$)",
                short,
            )
            and "." not in callee
        ):
            host = any(a.kind == "string" and "cpu" in a.text for a in positional(node))
            return {READ, COPY} if host else {COPY, READ, UPLOAD}
        if callee in ("wait", "fence", "drain", "barrier", "finish") and not positional(node):
            return {WAIT}
        if short == "to" and "." in callee:
            return self._move(node, scope)
        if (
            short in ("cuda", "xpu", "to_device")
            and "." in callee
            and not callee.startswith("torch.cuda")
        ):
            return self._upload(node, scope)
        if short in ("device_put", "asarray") and full.startswith(("jax.", "cupy.")):
            return {COPY}
        if full in (
            "numpy.asarray",
            "numpy.array",
            "cupy.asnumpy",
            "torch.save",
            "numpy.save",
            "numpy.testing.assert_allclose",
        ):
            return {READ}
        if full in _CASTS and positional(node):
            return self._cast(node, scope)
        if full in ("torch.tensor", "torch.as_tensor") and self._collects(node, scope):
            return {READ}
        if short in _SUMMARIES and "." in callee and self._summarizes(node, scope):
            return {READ}
        if any(a.kind == "string" and a.text.strip("'\"") == "cpu" for a in positional(node)):
            return {READ, COPY}
        if _is_condition(node) and (_DECIDES.match(full) or _DECIDES_ALL.match(callee)):
            return {READ}
        if short == "sleep":
            return {SLEEP}
        if positional(node) and _WRITES_MEDIA.search(short):
            return {READ, JOIN}
        if short in ("add", "add_batch", "compute") and self._is_metric(callee, scope):
            return {READ, JOIN}
        return set()

    def _is_metric(self, callee: str, scope: Scope) -> bool:
        """Whether a method is that of a metric of the evaluate library, which computes on the host.

        It takes tensors of the device and fetches what is in them.
        """
        pairs = self.scopes.assignments(callee.rpartition(".")[0], scope)
        made = (self.scopes.resolve(callee_text(v)) for _, v in pairs if v.kind == "call")
        return any(full in ("evaluate.load", "datasets.load_metric") for full in made)

    @cached_property
    def _is_taichi(self) -> bool:
        return "taichi" in self.scopes.imports.values()

    @cached_property
    def _is_executorch(self) -> bool:
        names = self.scopes.imports.values()
        return any(full.partition(".")[0] == "executorch" for full in names)

    def _read(self, node: Node, full: str, short: str, scope: Scope) -> set[str]:
        function = node.children[0]
        if full.startswith(("numpy.", "math.", "time.")):
            return set()
        receiver = self.devices.of(function, scope) if function.kind == "attribute" else UNKNOWN
        if function.kind == "name":
            key = squeeze(function.text).rpartition(".")[0]
            # Not loss = loss.item() itself, nor total = 0, which has no item(): it was added to.
            values = [
                value
                for _, value in self.scopes.assignments(key, scope)
                if value.kind != "number"
                and value.text != "None"
                and not value.start <= node.start < value.end
            ]
            values = [value for value in values if value.end <= node.start] or values
            given = {self.devices.of(v, self.scopes.scope_of(v)) for v in _last_given(values, node)}
            if given:
                receiver = given.pop() if len(given) == 1 else UNKNOWN
        if receiver == HOST and short in (
            "cpu",
            "numpy",
            "tolist",
            "unique",
            "nonzero",
            "equal",
            "item",
        ):
            # A float().item() of a host value costs nothing; a device value was read before.
            return set()
        if self._from_loader(function, scope) or re.search(
            r"(^|_)(cpu|host)(_\w+)?\.", callee_text(node)
        ):
            return set()  # splits_cpu.tolist()
        roles = {READ}
        if short in ("cpu", "numpy", "asnumpy", "copy_to_host", "get"):
            roles.add(COPY)
        return roles

    def _from_loader(self, function: Node, scope: Scope) -> bool:
        """Whether a batch is read as its data loader gave it, on the host."""
        base = squeeze(function.text).partition(".")[0] if function.kind == "name" else ""
        if not base or self.scopes.assignments(base, scope):
            return False
        listed = self.devices.iterated(base, scope, function)
        return listed is not None and bool(
            re.search(r"loader", listed.text) and not re.search(r"dali|prefetch", listed.text, re.I)
        )

    def _move(self, node: Node, scope: Scope) -> set[str]:
        given = [*positional(node), *([d] if (d := keyword(node, "device")) else [])]
        if not given or all(is_dtype(arg.text) for arg in given):
            function = node.children[0]
            where = self.devices.of(function, scope)
            return {WORK} if where == DEVICE else set()
        if any(re.search(r"[\"']cpu[\"']", arg.text) for arg in given):
            return {READ, COPY}
        return self._upload(node, scope)

    def _upload(self, node: Node, scope: Scope) -> set[str]:
        waits = keyword(node, "non_blocking")
        if waits is not None and waits.text != "False":
            return {COPY}
        function = node.children[0]
        source = UNKNOWN
        if function.kind == "attribute":
            source = self.devices.of(function.children[0], scope)
        elif function.kind == "name":
            key = squeeze(function.text).rpartition(".")[0]
            before = [p for p in self.scopes.assignments(key, scope) if p[1].end < node.start]
            if before:
                value = before[-1][1]
                source = self.devices.of(value, self.scopes.scope_of(value))
        # A copy from pageable memory returns when it is done, behind all that was queued before.
        return set() if source == DEVICE else {COPY, READ, UPLOAD}

    def _summarizes(self, node: Node, scope: Scope) -> bool:
        """Whether a summary writer is given a tensor of the device."""
        values = positional(node)[1:2]
        return any(
            self.devices.of(value, scope) == DEVICE
            or (self.evidence and value.text.endswith((".data", ".detach()")))
            for value in values
        )

    def _cast(self, node: Node, scope: Scope) -> set[str]:
        value = positional(node)[0]
        where = self.devices.of(value, scope)
        if where == DEVICE:
            return {READ}
        if (
            where == UNKNOWN
            and re.search(r"loss|logit|acc\b|grad|norm", value.text)
            and self.evidence
        ):
            return {READ}
        return set()

    def _collects(self, node: Node, scope: Scope) -> bool:
        """Whether a tensor is made of numbers that lie on the device: each is read for it."""
        listed = next(iter(positional(node)), None)
        if listed is None or listed.kind not in ("list", "tuple", "comp"):
            return False
        given = listed.children[:1] if listed.kind == "comp" else listed.children
        return any(
            self.devices.of(value, scope) == DEVICE
            or (value.kind == "call" and WORK in self.of(value, scope))
            for value in given
        )

    def _events(self, node: Node, callee: str, full: str, short: str, scope: Scope) -> set[str]:
        if short in _ELAPSED_TIMES:
            return {ELAPSED}
        if short == "record" and "." in callee:
            return {RECORD}
        if short == "record_event":
            return {RECORD}
        return set()

    def _output(self, node: Node, callee: str, full: str, short: str, scope: Scope) -> set[str]:
        head = callee.rpartition(".")[0]
        is_io = callee in words.IO_CALLS or full in words.IO_FUNCTIONS
        if not is_io and short in words.IO_METHODS and head:
            is_io = bool(words.IO_OBJECTS.search(head))
        is_io |= short in ("next", "progress_bar") and self._draws_bar(node, callee, scope)
        if not is_io:
            return set()
        roles = {IO}
        printed = self._printed(node)
        if any(self.devices.of(arg, scope) == DEVICE for arg in printed):
            roles.add(READ)
        if self.evidence and any(
            _SLICED.search(arg.text) and self.devices.of(arg, scope) != HOST for arg in printed
        ):
            roles.add(READ)  # print(output[0][:, 0, :]): only an array is sliced so
        return roles

    def _draws_bar(self, node: Node, callee: str, scope: Scope) -> bool:
        """Whether a call draws a progress bar, and not only where some time has gone by.

        bar.next() of the package progress, and progress_bar(batch, len(loader), text).
        """
        if callee.endswith("progress_bar"):
            return len(positional(node)) > 1 and "." not in callee
        made = self.scopes.definition(node, callee.rpartition(".")[0], scope)
        name = last_segment(callee_text(made)) if made and made.kind == "call" else ""
        return bool(re.match(r"[A-Z]\w*Bar$|Bar$", name))

    def formats(self, interpolation: Node, scope: Scope) -> bool:
        """Whether a tensor of the device becomes text, before a clock later in the text is read.

        f"{loss:.4f} in {time.time() - start}": values are formatted in their order.
        """
        text = interpolation.parent
        value = interpolation.children[0] if interpolation.children else None
        if text is None or value is None or self.devices.of(value, scope) != DEVICE:
            return False
        return any(  # in this text, or in one that goes on where it ends
            n.kind == "call" and self.scopes.resolve(callee_text(n)) in words.PYTHON_CLOCKS
            for n in (text.parent or text).walk()
            if n.start > interpolation.end
        )

    def _printed(self, node: Node) -> list[Node]:
        """The values that an output turns into text, by themselves or in a format."""
        found = []
        for arg in positional(node):
            formats = arg.kind == "call" and callee_text(arg).endswith(".format")
            if arg.kind == "string":
                for part in arg.walk():
                    if part.kind == "interpolation" and part.children:
                        found.append(part.children[0])
            elif formats and callee_text(arg)[:1] in "\"'":
                found += positional(arg)
            elif arg.kind == "binary" and arg.children[0].kind == "string":
                values = arg.children[-1]
                found += values.children if values.kind == "tuple" else [values]
            elif arg.kind in ("name", "subscript"):
                found.append(arg)
        return [
            a
            for a in found
            if (a.kind in ("name", "subscript") or callee_text(a).startswith("torch."))
            and not a.text.endswith((".shape", ".device", ".dtype", ".size"))
        ]

    def _arrays(self, node: Node, callee: str, full: str, short: str, scope: Scope) -> set[str]:
        if words.COMPILERS.search(full):
            return {COMPILE}
        if _is_empty(node):
            return set()
        if short in words.CLONES and ("." in callee or short in self.scopes.imports):
            where = self.devices.of(node, scope)
            if where == HOST and "torch" in self.libraries and short not in ("pin_memory",):
                return {ALLOC, HOST}
            if short == "clone" and where == DEVICE:
                return {ALLOC, WORK}
            return {ALLOC} if not full.startswith(("numpy.", "copy.")) else set()
        if words.FACTORY.match(short) and full.startswith(
            ("torch.", "cupy.", "jax.", "mlx.", "paddle.")
        ):
            if self.devices.of(node, scope) == HOST:
                return {ALLOC, HOST}
            return {ALLOC}
        return set()

    def _compute(self, node: Node, callee: str, full: str, short: str, scope: Scope) -> set[str]:
        head = full.partition(".")[0]
        function = node.children[0]
        if callee.endswith(".head") and not any(a.kind == "name" for a in positional(node)):
            return set()  # the first rows of a data frame
        if callee == "pipeline" and callee in self.scopes.imports:
            return set()  # transformers.pipeline("task") makes one
        if callee[:1] in "\"'" or (short in words.READ_NAMES and "(" in callee):
            return set()  # a method of a literal text; a read of what is on the host
        if short == "astype" and self._is_uploaded_to_mlx(function, scope):
            return {ALLOC}
        if "[" in callee and callee.endswith("]") and self._is_kernel_launch(node):
            return {BLOCKING, COPY} if self._copies_arrays(node, scope) else {WORK}
        if self._is_ufunc(callee):
            return {BLOCKING, COPY} if self._copies_arrays(node, scope) else {WORK}
        if (
            callee in words.HOST_CALLS
            or head in words.HOST_MODULES
            or full.partition(".")[0] == "numpy"
        ):
            return set()
        vendor = words.CPP_VENDOR.sub("", short)
        if vendor != short and "." in callee:  # cudart.cudaMemcpyAsync() and its like
            return self._runtime(vendor, node) - {RECORD, ELAPSED}
        if self._checks(node):
            return set()
        if words.COLLECTIVE.search(full) and re.search(
            r"dist|comm|nccl|torch\.distributed|pg|group|hvd", full
        ):
            return {WORK}
        if keyword(node, "block") is not None and "pycuda" in self.scopes.tree.text:
            return {WORK}  # PyCUDA: kernel(x, block=(256, 1, 1), grid=(n, 1))
        if short in ("launch", "capture_launch", "launch_tiled") and re.match(
            r"warp|wp\.|cuda\.core", full
        ):
            return {WORK}
        if short in ("lower", "compile") and self._stages(node, function, scope):
            return {COMPILE} if short == "compile" else set()  # jax.jit(f).lower(x).compile()
        if short == "apply" and self.libraries & {"jax", "flax"}:
            return {WORK, LIKELY}
        if short == "replay":
            return {WORK, REPLAY}
        if short == "backward":
            host = self._callee_device(node, function, full, scope) == HOST
            if host and self._is_summed(node, callee, scope):
                host = False
            return {WORK} if self.evidence and not host else set()
        if short == "step" and self._on_host(node, callee, scope):
            return set()
        if (
            short == "step"
            and re.search(r"opt|scaler|engine|adam|sgd", callee, re.IGNORECASE)
            and not re.search(r"sched", callee)
        ):
            # GradScaler.step() reads whether a gradient is infinite, and then lets the step go.
            reads = {BLOCKING} if re.search(r"scaler\d*\.step$", callee) else set()
            return {WORK} | reads if self.evidence else set()
        if short in words.KERAS_BLOCKING and "." in callee and "tensorflow" in self.libraries:
            return {BLOCKING} if self.evidence else set()
        if (short in words.BLOCKING_NAMES and "." in callee) or full.endswith("session.run"):
            return {BLOCKING} if self.evidence else set()
        if short == "forward" and "." in callee and self._is_executorch:
            return {BLOCKING} if self.evidence else set()  # its outputs are on the host
        if self._is_pipeline(node, callee, scope):
            return {BLOCKING} if self.evidence else set()  # images or text come back
        if short == "run" and (re.search(r"sess", callee) or self._is_session(callee, scope)):
            return {BLOCKING}
        if short in ("execute_async_v2", "execute_async_v3", "execute_async", "enqueue_v3"):
            return {WORK}
        if words.TOKENIZER.search(callee):
            return set()
        if short == "copy_" and keyword(node, "non_blocking") is None:
            given = positional(node)
            if len(given) == 1 and self._is_loaded(given[0], scope):
                return {COPY, READ, UPLOAD}
        if short == "copy_" and (ahead := keyword(node, "non_blocking")) is not None:
            # Who says that a copy blocks has one side of it on the host.
            return {WORK, COPY} if ahead.text != "False" else {BLOCKING, COPY}
        if _TRAINER.search(callee):
            return {BLOCKING, PHASE} if self.evidence else set()
        found = self._by_operands(node, callee, full, short, scope, function)
        if any(_UNTIL_DONE.match(squeeze(k.text)) for k in self._keywords(node)):
            return {BLOCKING} if self.evidence else set()
        if WORK in found and any(_AS_ARRAY.search(squeeze(k.text)) for k in self._keywords(node)):
            return {BLOCKING}
        if WORK in found and _WAITS_ITSELF.match(full):
            handed = keyword(node, "resources") or keyword(node, "handle")
            return {WORK} if handed is not None else {BLOCKING}
        return found

    def _is_pipeline(self, node: Node, callee: str, scope: Scope) -> bool:
        """Whether a pipeline of diffusers or transformers is called, whose results are on the host.

        It is known by its name, by the class that it was made of, or by the images taken from it.
        """
        if self._output_type(node) in ("latent", "pt"):
            return False
        if re.fullmatch(r"(self\.)?(\w+_)?(pipe|pipeline)(_\w+|\d+)?", callee):
            return True
        parent = node.parent
        if (
            parent is not None
            and parent.kind == "attribute"
            and parent.text.endswith(words.PIPELINE_OUTPUTS)
        ):
            return True
        if not self._pipelines:
            return False
        made = self.scopes.definition(node, callee, scope)
        return made is not None and bool(words.PIPELINE.search(made.text[:200]))

    def _is_session(self, callee: str, scope: Scope) -> bool:
        """Whether a method is one of an InferenceSession of ONNX Runtime."""
        if "InferenceSession" not in self.scopes.tree.text:
            return False
        pairs = self.scopes.assignments(callee.rpartition(".")[0], scope)
        return any("InferenceSession(" in value.text[:80] for _, value in pairs)

    @cached_property
    def _pipelines(self) -> bool:
        return "Pipeline" in self.scopes.tree.text or "pipeline(" in self.scopes.tree.text

    def _checks(self, node: Node) -> bool:
        """Whether a call only looks at the status that a call of the runtime returned.

        Beside other arguments only that of a wait: check(cudart.cudaStreamSynchronize(s), "d2h").
        """
        given = positional(node)
        inner = last_segment(callee_text(given[0])) if given and given[0].kind == "call" else ""
        alone = len(given) == 1 and words.CPP_VENDOR.match(inner) is not None
        return alone or words.CPP_ANY_WAIT.search(inner) is not None

    def _output_type(self, node: Node) -> str:
        """What a diffusers pipeline is asked for; images and arrays are on the host."""
        kind = keyword(node, "output_type")
        return "" if kind is None else kind.text.strip("\"'")

    def _is_summed(self, node: Node, callee: str, scope: Scope) -> bool:
        """Whether a loss is a sum: 0 to begin with, or sum(losses). No number goes back.

        Be it worked out here, or by a function that returns it.
        """
        value = self.scopes.definition(node, callee.rpartition(".")[0], scope)
        if value is None:
            return False
        made = self.scopes.called_function(value, scope) if value.kind == "call" else None
        if made is None:
            return value.kind == "number" or value.text.startswith("sum(")
        back = [n.children[0] for n in made.nodes if n.kind == "return" and n.children]
        parts = [p for v in back for p in (v.children if v.kind == "tuple" else [v])]
        values = [v for p in parts for _, v in self.scopes.assignments(p.text, made)]
        return any(value.text.startswith("sum(") for value in (*parts, *values))

    def _on_host(self, node: Node, callee: str, scope: Scope) -> bool:
        """Whether the optimizer's name, class or parameters say that it runs on the host."""
        key = callee.rpartition(".")[0]
        value = self.scopes.definition(node, key, scope)
        if value is None or value.kind != "call":
            passed = self.scopes.argument_values(scope, key)
            value = passed[0] if passed else None
        if value is None:
            return "cpu" in key.lower()
        if re.search(r"cpu", value.text.partition("(")[0], re.IGNORECASE):
            return True
        where = self.scopes.scope_of(value)
        given = positional(value)
        return bool(given) and self.devices.of(given[0], where) == HOST

    def _by_operands(
        self, node: Node, callee: str, full: str, short: str, scope: Scope, function: Node
    ) -> set[str]:
        if (
            short in words.HOST_METHODS
            and "." in callee
            and not callee.startswith(("torch.", "F.", "jnp."))
        ):
            return set()
        if (
            self._is_array_module(full)
            and not re.search(
                r"(^|\.)(Event|Stream|Device|Generator|RandomState|PRNGKey|key|split|seed"
                r"|default_rng|RawKernel|ElementwiseKernel|RawModule|ReductionKernel"
                r"|device|devices|get_default_memory_pool|get_current_stream|jit|vmap"
                r"|grad|pmap|value_and_grad|config|set_\w+|get_\w+|is_\w+)$",
                full,
            )
            and not full.startswith(
                (
                    "cupy.cuda",
                    "jax.config",
                    "jax.distributed",
                    "jax.lib",
                    "jax.profiler",
                    "mlx.core.eval",
                )
            )
        ):
            return {WORK}
        operator = _REGISTERED.match(full) is not None
        if (
            re.match(r"[A-Z]", short)
            and not operator
            and (not short.isupper() or short in self.scopes.imports)
        ):
            return set()  # a class
        if re.match(r"(enable|disable)_", short):
            return set()  # pipe.enable_model_cpu_offload()
        if full.startswith(
            (
                "torch.utils",
                "torch.distributed",
                "torch.jit",
                "torch.load",
                "torch.manual_seed",
                "torch.set_",
                "torch.get_",
                "torch.is_",
                "torch._dynamo",
                "torch.device",
                "torch.no_grad",
                "torch.inference_mode",
                "torch.autocast",
                "torch.amp",
                "torch.compile",
                "torch.from_numpy",
                "torch.frombuffer",
                "torch.from_file",
                "torch.hub",
                "torch.random",
                "torch.Size",
                "torch.finfo",
            )
        ):
            return set()
        head = callee.rpartition(".")[0]
        if words.HOST_VERB.search(callee) and not full.startswith("torch."):
            return set()
        if short in ("decode", "encode") and head and not words.CODEC_ON_DEVICE.search(head):
            return set()
        if _TRANSFORMS.match(full) or words.MAKES_DATA.match(short):
            return set()
        if "." in callee and words.HOUSEKEEPING.match(short) and head not in self.scopes.imports:
            return set()
        if self.evidence and _PHASE.match(short) and positional(node):
            return {BLOCKING, PHASE}  # the losses of an epoch come back as numbers
        operands = [self.devices.of(arg, scope) for arg in positional(node)]
        operands += [
            self.devices.of(k.children[-1], scope) for k in (self._keywords(node)) if k.children
        ]
        if full in _JOINS and self._joins_host(node, scope):
            return set()
        receiver = self._callee_device(node, function, full, scope)
        if self.evidence and _TUNES.search(short) and self._is_about_model(node, head):
            return {BLOCKING, PHASE}  # a search or a calibration reads its results
        if DEVICE in operands and receiver != DEVICE:
            if _EVALUATES.match(short) and self._has_model(node):
                return {READ}  # metrics or texts come back
            if receiver == UNKNOWN and self._is_pass(node):
                return {READ}  # of test(model, loader), too
            if self._only_model(node, scope, short):
                return set()
        if DEVICE in operands or receiver == DEVICE:
            return {WORK}
        if words.EAGER.fullmatch(full):
            return {WORK, LIKELY} if self.evidence else set()
        if full.startswith("torch.") and "(" not in full:  # not torch.tensor([4]).to(dtype)
            where = self.devices.join(operands) if operands else UNKNOWN
            return {WORK, LIKELY} if where == UNKNOWN and self.evidence else set()
        if (
            not self.evidence
            or receiver == HOST
            or (
                operands
                and all(o == HOST for o in operands)
                and positional(node)
                and receiver != UNKNOWN
            )
        ):
            return set()
        if _EVALUATES.match(short) and positional(node):
            return {READ}  # metrics come back as numbers
        if words.NOT_MODEL.search(callee):
            return set()
        if self._is_jitted(callee):
            return {WORK, LIKELY}
        if self._is_imported(callee):
            return set()  # what a function of another file does its name does not tell
        if set(operands) == {HOST} and self._is_given_host_tensors(node):
            return set()  # a model on a device would not take them
        if self._is_given_batch(node, scope):
            return set()
        if words.MODEL.search(callee):
            return {WORK, LIKELY}
        if short in words.TENSOR_VERBS and "." in callee and "torch" in self.libraries:
            return {WORK, LIKELY}
        if (
            short.endswith("_")
            and not short.startswith("_")
            and "." in callee
            and "torch" in self.libraries
        ):
            return {WORK, LIKELY}
        return set()

    @cached_property
    def _moves(self) -> bool:
        return _MOVES.search(self.whole) is not None

    def _is_given_host_tensors(self, node: Node) -> bool:
        """Whether arguments, all of them values of the host, are tensors that nothing moves."""
        if self._moves:
            return False
        values = [
            value.text
            for argument in positional(node)
            for _, value in self.scopes.assignments(squeeze(argument.text))
        ]
        return any(_MAKES_TENSOR.match(squeeze(value)) for value in values)

    def _is_given_batch(self, node: Node, scope: Scope) -> bool:
        """Whether an argument is what a DataLoader of torch gave, and nothing moved it since."""
        if "DataLoader(" not in self.whole or self._moves:
            return False
        return any(self._is_batch(a, scope) for a in positional(node) if a.kind == "name")

    def _is_batch(self, name: Node, scope: Scope) -> bool:
        key = squeeze(name.text)
        listed = self.devices.iterated(key, scope, name)
        if listed is None or self.scopes.assignments(key, scope):
            return False
        if listed.kind == "call" and positional(listed):  # enumerate(loader), tqdm(loader)
            listed = positional(listed)[0]
        made = self.scopes.definition(listed, squeeze(listed.text), scope)
        return made is not None and callee_text(made).endswith("DataLoader")

    def _is_loaded(self, value: Node, scope: Scope) -> bool:
        """Whether a value is part of a batch that an iterator over a DataLoader gave: next(it)."""
        if value.kind != "subscript" or "DataLoader(" not in self.whole:
            return False
        given = [v for _, v in self.scopes.assignments(base_name(value.text), scope)]
        return bool(given) and all(v.kind == "call" and callee_text(v) == "next" for v in given)

    def _is_about_model(self, node: Node, head: str) -> bool:
        """Whether a method of a model is called, or a function whose first argument is one."""
        return any(
            _A_MODEL.search(squeeze(n)) for n in (head, *(a.text for a in positional(node)[:1]))
        )

    def _has_model(self, node: Node) -> bool:
        """Whether an argument is a model, by its name."""
        given = [*positional(node), *(k.children[-1] for k in self._keywords(node) if k.children)]
        return any(_A_MODEL.search(squeeze(a.text)) for a in given)

    def _is_pass(self, node: Node) -> bool:
        """Whether a function of another file is given a model and a loader of data for it."""
        loaders = (a for a in positional(node) if _A_LOADER.search(squeeze(a.text)))
        return next(loaders, None) is not None and self._has_model(node)

    def _only_model(self, node: Node, scope: Scope, short: str) -> bool:
        """Whether all that a function gets of the device is a model that it does not run.

        optimize_model(model) and get_batch_size(model) change or ask the model; nothing is queued.
        """
        given = [*positional(node), *(k.children[-1] for k in self._keywords(node) if k.children)]
        there = [a for a in given if self.devices.of(a, scope) == DEVICE]
        models = bool(there) and all(_A_MODEL.search(squeeze(a.text)) for a in there)
        return models and not _RUNS_MODEL.search(short)

    def _is_imported(self, callee: str) -> bool:
        """Whether a plain function is called that is imported by its name from another file."""
        return callee in self.scopes.imports and callee not in self.scopes.functions

    def _joins_host(self, node: Node, scope: Scope) -> bool:
        """Whether a member of torch.cat((a, b)) is known to be on the host."""
        given = positional(node)[:1]
        members = given[0].children if given and given[0].kind in ("tuple", "list") else []
        return any(self.devices.of(m, scope) == HOST for m in members if m.kind != "number")

    def _keywords(self, node: Node) -> list[Node]:
        return [
            k for c in node.children if c.kind == "args" for k in c.children if k.kind == "keyword"
        ]

    def receiver(self, call: Node, scope: Scope) -> str:
        """Where the object lives whose method a call of Python is, or that is called."""
        full = self.scopes.resolve(callee_text(call))
        return self._callee_device(call, call.children[0], full, scope)

    def _callee_device(self, node: Node, function: Node, full: str, scope: Scope) -> str:
        if function.kind == "attribute":
            return self.devices.of(function.children[0], scope)
        if function.kind == "name" and "." in function.text:
            head = squeeze(function.text).partition(".")[0]
            if head in self.scopes.imports:
                return UNKNOWN
            return self.devices._receiver(function, scope, 1)
        if function.kind == "name":
            return self.devices.of(function, scope)
        return UNKNOWN

    def _is_uploaded_to_mlx(self, function: Node, scope: Scope) -> bool:
        """Whether `mx.array(of_the_host).astype` converts what it uploads: MLX runs it later."""
        made = function.children[0] if function.children else function
        return made.kind == "call" and self.scopes.resolve(callee_text(made)) == "mlx.core.array"

    def _is_array_module(self, full: str) -> bool:
        return full.startswith(
            ("cupy.", "jax.numpy.", "jax.lax.", "jax.nn.", "jax.random.", "mlx.core.", "mlx.nn.")
        )

    def _is_kernel_launch(self, node: Node) -> bool:
        """`kernel[grid](...)`: the subscript holds a launch grid, not the key of a container."""
        function = node.children[0]
        if function.kind != "subscript" or not function.children:
            return False
        if not self.libraries & {"triton", "numba", "tilelang", "cutlass", "cupy"}:
            return False
        name = squeeze(function.children[0].text)
        local = self.scopes.functions.get(last_segment(name))
        if local and any(re.search(r"jit|kernel", d.text) for f in local for d in f.decorators):
            return True
        return bool(re.search(r"kernel|_fwd|_bwd|jit", name)) or any(
            c.kind in ("tuple", "lambda") or re.search(r"grid|block|thread", c.text)
            for c in function.children[1:]
        )

    def is_operator(self, value: Node) -> bool:
        """Whether a value is a function of a library that works on the device's arrays."""
        if not (self.python and self.evidence and value.kind == "name"):
            return False
        return _OPERATOR.fullmatch(self.scopes.resolve(value.text)) is not None

    def _is_ufunc(self, callee: str) -> bool:
        """Whether a function of the file is one of arrays that Numba makes for the device."""
        return "numba" in self.libraries and any(
            words.CUDA_UFUNC.search(d.text)
            for function in self.scopes.functions.get(callee, [])
            for d in function.decorators
        )

    def _copies_arrays(self, node: Node, scope: Scope) -> bool:
        """Whether Numba is given NumPy arrays: it copies them there, and back before it returns."""
        if "numba" not in self.libraries or self.libraries & {"triton", "cupy", "tilelang"}:
            return False
        return any(self._is_numpy(argument, scope) for argument in positional(node))

    def _is_numpy(self, argument: Node, scope: Scope) -> bool:
        if argument.kind != "name" or self.devices.of(argument, scope) != HOST:
            return False
        value = self.scopes.definition(argument, squeeze(argument.text), scope)
        made = callee_text(value) if value is not None and value.kind == "call" else ""
        return bool(_NUMPY_ARRAY.match(self.scopes.resolve(squeeze(made))))

    def _is_jitted(self, callee: str) -> bool:
        for function in self.scopes.functions.get(last_segment(callee), []):
            if any(re.search(r"\bjit\b|compile", d.text) for d in function.decorators):
                return True
        for _, value in self.scopes.assignments(callee):
            if value.kind == "call" and re.search(
                r"(^|[._])(jit|compile|pmap|vmap|get_\w*kernel|load_inline"
                r"|make_graphed_callables)$",
                callee_text(value),
            ):
                return True
            if value.kind == "call" and re.search(
                r"\.(kernel|function|get_function)$|RawKernel$", callee_text(value)
            ):
                return True
        return False

    # CUDA and HIP C++

    def _cpp(self, node: Node, scope: Scope) -> set[str]:
        if node.kind == "launch":
            return {WORK}
        if node.kind in ("assign", "declarator"):
            return {BLOCKING} if self._copies_vector(node) else set()
        if node.kind == "binary":
            return {IO} if _streams_out(node) else set()
        if node.kind != "call":
            return set()
        callee = callee_text(node)
        short = last_segment(callee)
        if self._cpp_clock(callee, short, node):
            return {CLOCK, WAIT} if self._is_rocm_client_clock(short) else {CLOCK}
        if any(words.CPP_WAIT_FUNCTION.fullmatch(a.text) for a in positional(node)[:1]):
            return {WAIT}  # CHECK_AND_CALL(cudaDeviceSynchronize)
        vendor = words.CPP_VENDOR.sub("", short)
        is_vendor = vendor != short
        if is_vendor:
            found = self._runtime(vendor, node)
            if found:
                return found
        if words.CPP_ANY_WAIT.search(short) or short == "glFinish":
            return {WAIT}
        if words.SHOWS_FRAME.search(short):
            return {READ, JOIN}  # the queue of frames keeps the host at the pace of the device
        if words.COLLECTIVE_CPP.match(short):
            return {WORK}
        if words.CPP_TRIES_OUT.match(short):
            return {BLOCKING}
        library = self._library(node, callee, short)
        if library is not None:
            return library
        if words.COMPILERS_CPP.search(short):
            return {COMPILE}
        if words.CPP_SETS_UP.match(short):
            return {SETUP}
        if short in ("enqueueV2", "enqueueV3") or _is_enqueued(node, callee, short):
            return {WORK}
        if short in ("executeV2", "execute") and "." not in callee:
            return {BLOCKING}
        if short == "forward" and re.search(r"\.|->", callee) and "torch" in self.scopes.tree.text:
            return {WORK} if self._is_moved(callee) else {WORK, LIKELY}
        if short == "elapsed_time":
            return {ELAPSED}
        if short == "record" and re.search(r"\.|->", callee):
            return {RECORD}
        if short in words.IO_CALLS:
            return {IO}
        if words.CPP_HOST_MEMORY.match(callee):
            return self._host_memory(node)
        if short in self.scopes.macros:
            return self._macro(self.scopes.macros[short])
        if short == "sleep_for" or short in ("usleep", "sleep"):
            return {SLEEP}
        if words.WAIT_NAME.search(short) and not words.NO_WAIT_NAME.search(short):
            return {WAIT}
        if short in ("get", "join", "wait") and re.search(r"\.|->", callee):
            return {READ, JOIN}
        if short == "item":
            return {READ}
        if words.COPY_TO_HOST.search(short):
            return {BLOCKING, COPY}
        if self._is_submitted(node, callee, short):
            return {WORK}
        if short == "finalize" and "->*" in self.scopes.tree.text and re.search(r"\.|->", callee):
            return {WAIT}  # a context of CUDASTF, whose tasks it waits for
        if short == "get_time_ms" and base_name(callee) in self._queues:
            return {WAIT}  # an executor of MatX, which waits for its own events
        return set() if words.CPP_HOUSEKEEPING.match(short) else self._foreign(node, callee)

    def _is_moved(self, callee: str) -> bool:
        """Whether the file moves the module of libtorch whose method is called to a device."""
        moved = rf"\b{re.escape(base_name(callee))}\s*(?:\.|->)\s*to\(\s*([^;]*)"
        told = (found[1] for found in re.finditer(moved, self.scopes.tree.text))
        return any(re.search(r"CUDA|[dD]evice", text) and "kCPU" not in text for text in told)

    def _library(self, node: Node, callee: str, short: str) -> set[str] | None:
        """What a call of a library of CUDA or HIP does; None for what is none of them."""
        if words.CPP_LIBRARY_WAITS.match(short):
            return {WAIT}
        if words.CPP_LIBRARY_ON_HOST.match(short):
            return {BLOCKING, COPY}
        if words.CPP_LIBRARY_VALUE.match(short):
            stays = "POINTER_MODE_DEVICE" in self.scopes.tree.text
            return {WORK} if stays else {BLOCKING}
        if words.CPP_LIBRARY_WORK.match(short):
            return {WORK}
        if words.CPP_LIBRARY_COPY.match(short):
            return {BLOCKING, COPY}
        if words.CPP_LIBRARY_COPY_ASYNC.match(short):
            return {WORK, COPY}
        if words.CPP_CUB.match(callee):
            return set() if self.asks_size(node) else {WORK}
        if callee.startswith("thrust::"):
            return self._thrust(node, callee)
        return None

    def _thrust(self, node: Node, callee: str) -> set[str]:
        """An algorithm of Thrust waits, unless it is told not to and nothing comes back."""
        name = re.sub(r"<.*", "", callee)
        if words.CPP_THRUST_TOOLS.search(name):
            return set()
        given = positional(node)
        lazy = bool(given) and "par_nosync" in given[0].text
        return {WORK} if lazy and not words.CPP_THRUST_VALUE.search(name) else {BLOCKING}

    def asks_size(self, node: Node) -> bool:
        """Whether a call of CUB asks how much memory it needs: it is given none, and no work."""
        given = positional(node)
        name = base_name(given[0].text) if given else ""
        if name in ("nullptr", "NULL", "0"):
            return True
        scope = self.scopes.scope_of(node)
        return any(
            call.start > node.end
            and words.CPP_VENDOR.sub("", last_segment(callee_text(call))) in words.CPP_ALLOC
            and positional(call)
            and _allocated(call) == name
            and self.scopes.scope_of(call) is scope
            for call in self.scopes.calls
        )

    def _is_submitted(self, node: Node, callee: str, short: str) -> bool:
        """Whether a method queues work by what it is given: run(stream), (c = a + b).run().

        Or by what follows it, as a task of CUDASTF: ctx.launch(...)->*[=] __device__ ...
        """
        if not re.search(r"\.|->", callee):
            return False
        if words.CPP_TASK.match(short):
            body = self.scopes.tree.text[node.end : node.end + 400].lstrip()
            return body.startswith("->*") and not _EMPTY_TASK.match(body)
        if not words.CPP_SUBMITS.match(short):
            return False
        if re.match(r"\([^=]*[^=<>!]=[^=].*\)\.run$", callee, re.DOTALL) and not positional(node):
            return "matx" in self.scopes.tree.text
        return any(base_name(a.text.lstrip("&*")) in self._queues for a in positional(node))

    @cached_property
    def _queues(self) -> frozenset[str]:
        """Variables of a C++ file that are declared as streams, or as executors on the device."""
        return frozenset(words.CPP_QUEUE.findall(self.scopes.tree.text))

    def _host_memory(self, node: Node) -> set[str]:
        """What a function of the host does to memory: that of the device it can reach, too."""
        fills = "cpy" in callee_text(node) and positional(node)
        return {FILL} if fills and base_name(positional(node)[0].text) in self._managed else set()

    @cached_property
    def _managed(self) -> frozenset[str]:
        """Variables of a C++ file that hold memory which both the host and the device reach."""
        return frozenset(
            _allocated(call)
            for call in self.scopes.calls
            if "MallocManaged" in callee_text(call) and positional(call)
        )

    def _is_rocm_client_clock(self, short: str) -> bool:
        """Whether get_time_us() is that of the clients of ROCm's libraries, which waits first."""
        return bool(re.fullmatch(r"get_time_(us|ms)", short)) and bool(
            re.search(r"\b(roc|hip)(sparse|solver|blas|fft|rand)_", self.scopes.tree.text)
        )

    def _into_pageable(self, copy: Node) -> bool:
        """Whether an asynchronous copy goes to memory of malloc, new, a vector or an array."""
        given = positional(copy)
        return bool(given) and base_name(given[0].text) in self._pageable

    @cached_property
    def _pageable(self) -> frozenset[str]:
        """Variables of a C++ file that hold memory of the host which nothing pins."""
        text = self.scopes.tree.text
        found = {first or second for first, second in words.CPP_PAGEABLE.findall(text)}
        pins = (c for c in self.scopes.calls if words.CPP_PINS.search(callee_text(c)))
        return frozenset(found - {base_name(arg.text) for c in pins for arg in positional(c)[:1]})

    @cached_property
    def device_pointers(self) -> frozenset[str]:
        """Variables of a C++ file that hold device memory: allocated as such, or named d_x."""
        found = set()
        text = self.scopes.tree.text
        if words.CPP_RUNTIME.search(text):  # a name alone tells nothing
            found |= set(re.findall(r"\b(?:d|dev|gpu)_\w+", text))
            found -= set(words.CPP_ON_HOST.findall(text))
        for call in self.scopes.calls:
            short = last_segment(callee_text(call))
            vendor = words.CPP_VENDOR.sub("", short)
            # What managed memory is given to may well run on the host.
            host = "Host" in vendor or "Managed" in vendor
            if vendor in words.CPP_ALLOC and not host and positional(call):
                found.add(_allocated(call))
        return frozenset(found)

    def _on_device(self, names: set[str], place: Node, depth: int = 0) -> bool:
        """Whether one of some variables of C++ holds device memory, be it as a parameter.

        A function that chooses one of many kernels is given d_A, and calls it A.
        """
        if names & self.device_pointers:
            return True
        scope = self.scopes.scope_of(place)
        if depth > 2 or scope.node.kind != "function" or not names & set(scope.parameters):
            return False
        for site in self.scopes.call_sites(scope):
            taken = zip(scope.parameters, positional(site), strict=False)
            given = {base_name(value.text) for name, value in taken if name in names}
            if self._on_device(given, site, depth + 1):
                return True
        return False

    @cached_property
    def _thrust_vectors(self) -> dict[str, frozenset[str]]:
        """Names of Thrust's vectors by where they live: "host" and "device"."""
        named = re.findall(
            r"\b(host|device)_vector\s*<[^;{}()]*>[\s&*]+(\w+)", self.scopes.tree.text
        )
        return {place: frozenset(n for p, n in named if p == place) for place in ("host", "device")}

    def _stages(self, node: Node, function: Node, scope: Scope) -> bool:
        """Whether JAX is told to lower a function or to compile it, which runs on the host."""
        if "jax" not in self.libraries:
            return False
        if "(" in function.text or (last_segment(function.text) == "lower" and positional(node)):
            return True
        made = self.scopes.assignments(function.text.rpartition(".")[0], scope)
        return any(".lower(" in value.text for _, value in made)

    def _copies_vector(self, node: Node) -> bool:
        """`host_vector<T> h = d;`, `h = d;`, `host_vector<T> h(d);`: the host waits for a copy."""
        host, device = self._thrust_vectors["host"], self._thrust_vectors["device"]
        if not (host and device and len(node.children) > 1):
            return False
        target = base_name(node.children[0].text)
        source = {base_name(n.text) for n in node.children[-1].walk() if n.kind == "name"}
        return (target in host and bool(source & device)) or (
            target in device and bool(source & host)
        )

    def _foreign(self, node: Node, callee: str) -> set[str]:
        """A function of another file that gets device memory: it launches something."""
        if (
            "::" in callee
            or "." in callee
            or "->" in callee
            or re.match(r"cl[A-Z]|(ibv|rdma|ucp|uct|fi)_", callee)  # whose queues are not judged
            or words.CPP_LIBRARY.match(callee)  # what is not work is told by its name
            or re.search(
                r"^P?MPI_|_cast$|check|print|free|alloc|init|copy|compare|verify|create|destroy|setup"
                r"|descr|handle|buffer_?size|^(dim3|min|max"
                r"|sizeof|make_\w+)$",
                callee,
                re.IGNORECASE,
            )
        ):
            return set()
        given = [arg.text for arg in positional(node)]
        if any(_A_TIMER.search(base_name(text)) for text in given):
            return set()  # it takes the time by itself, with its waits
        names = {base_name(text) for text in given if not words.CPP_ABOUT.search(text)}
        if not self._on_device(names, node) and not self.launches_by_name(callee):
            return set()
        # A value that comes back has been computed.
        used = node.parent is not None and node.parent.kind in (
            "assign",
            "binary",
            "compare",
            "return",
            "condition",
        )
        return {BLOCKING} if used else {WORK, LIKELY}

    def launches_by_name(self, callee: str) -> bool:
        """Whether a function that the file does not show is one that launches, by its name."""
        return (
            callee not in self.scopes.functions
            and bool(re.search(r"^launch|_(forward|backward|launch|launcher)$", callee))
            and bool(re.search(r"\bcuda[A-Z]\w+\s*\(|\bhip[A-Z]\w+\s*\(", self.scopes.tree.text))
        )

    def _macro(self, text: str) -> set[str]:
        if re.search(r"(Device|Stream|Event|Thread)Synchronize", text):
            return {WAIT}
        return {WORK} if "<<<" in text else set()

    def _cpp_clock(self, callee: str, short: str, node: Node | None = None) -> bool:
        full = self.scopes.resolve(callee)
        if short == "now":
            return (
                bool(re.search(r"clock|chrono", full, re.IGNORECASE))
                or "chrono" in self.scopes.tree.text
            )
        if words.CPP_CLOCK_HELPER.match(callee) and node is not None and not positional(node):
            return True
        return full in words.CPP_CLOCKS or short in words.CPP_CLOCK_FILLERS

    def _runtime(self, vendor: str, node: Node) -> set[str]:
        if vendor in words.CPP_WAITS:
            return {WAIT}
        if vendor == "EventQuery" or vendor == "StreamQuery":
            looped = any(p.kind == "while" for p in node.ancestors())
            return {WAIT} if looped else set()
        if re.match(r"EventRecord(WithFlags)?$", vendor):
            return {RECORD}
        if re.match(r"EventElapsedTime(_v2)?$", vendor):
            return {ELAPSED}
        if vendor in words.CPP_BLOCKING:
            text = node.text
            if "DeviceToDevice" in text:
                return {WORK, COPY}
            return {BLOCKING, COPY}
        if vendor in words.CPP_ASYNC:
            if "DeviceToHost" in node.text and self._into_pageable(node):
                return {BLOCKING, COPY}  # it returns when the copy is done
            roles = {WORK}
            if "Memcpy" in vendor or vendor == "MemPrefetchAsync":
                roles.add(COPY)
            if vendor == "GraphLaunch":
                roles.add(REPLAY)
            return roles
        if vendor in words.CPP_ALLOC:
            return {ALLOC}
        if words.COMPILERS_CPP.search("cuda" + vendor) or re.match(
            r"GraphInstantiate|ModuleLoad", vendor
        ):
            return {COMPILE}
        return set()


def _is_enqueued(node: Node, callee: str, short: str) -> bool:
    """Whether an engine is run on a stream: enqueue(node) is a queue of the host."""
    if short != "enqueue" or short == callee:
        return False
    engine = re.search(r"context|ctx|engine|exec|trt|plugin|model|infer", callee, re.IGNORECASE)
    return engine is not None or any("tream" in a.text for a in positional(node))
