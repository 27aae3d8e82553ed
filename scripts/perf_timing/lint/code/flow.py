"""What a stretch of code does, in order: the steps of a scope, with helpers of the file inlined.

A `Step` is one node with roles. A call of a function of the same file contributes that function's
steps at the place of the call (four calls deep), so that a wait or a launch hidden in a helper
counts where it happens. A callable that is passed in as a parameter stands for what the file's call
sites pass; if there are several, for the one that leaves most work behind. Branches are taken as if
executed: work in a branch counts as work, and a wait in a branch as a wait, unless the branch is
for the host only. A context manager of the file contributes its entry where the block begins and
its exit where the block ends.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from perf_timing.lint import roles as r
from perf_timing.lint.code import members
from perf_timing.lint.code import vocabulary as words
from perf_timing.lint.code.scopes import (
    Scope,
    Scopes,
    argument,
    base_name,
    callee_text,
    last_segment,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.roles import Roles

_DEEPEST = 4
_MOST_STEPS = 4000
_MOST_LEFT = 3  # steps of work before the last one, which may lie in another branch
_REMEMBERED = 4096  # conditions; every call in a branch asks for the same
_DECIDED = frozenset({r.WAIT, r.READ, r.CLOCK, r.BLOCKING})
WAITS = frozenset({r.WAIT, r.READ, r.BLOCKING})


@dataclass(frozen=True)
class Step:
    """Something that happens in a scope at `site`; `node` is where, perhaps in a helper."""

    node: Node
    site: Node
    roles: frozenset[str]
    position: int  # offset at which it happens in the scope
    helpers: tuple[Scope, ...] = ()

    @property
    def waits(self) -> bool:
        """The host goes on only when the device has caught up."""
        return bool(self.roles & WAITS)

    @property
    def works(self) -> bool:
        """Work is left on the device."""
        return r.WORK in self.roles


# What runs a lambda that it is given before it returns, by its name: a macro, an algorithm of std.
_RUNS_LAMBDA = re.compile(
    r"[A-Z][A-Z0-9_]*_[A-Z0-9_]+|std::(for_each(_n)?|invoke|apply|visit|call_once|generate(_n)?)"
)
# A function that is called at each step, by the name of the parameter; and what draws a picture.
_CALLBACK = re.compile(r"\w*(callback|hook)\w*\s*=|on_(?!gpu|device)\w+\s*=")
_DRAWS = re.compile(r"(render|imshow|imwrite|savefig)$")


class Flow:
    """Steps of scopes; remembers them."""

    def __init__(self, scopes: Scopes, roles: Roles) -> None:
        self.scopes = scopes
        self.roles = roles
        self._known: dict[int, tuple[Step, ...]] = {}
        self._busy: set[int] = set()

    def steps(self, scope: Scope, depth: int = 0) -> tuple[Step, ...]:
        """All steps of `scope`, in the order in which they happen once."""
        key = id(scope)
        if key in self._known:
            return self._known[key]
        if depth > _DEEPEST or key in self._busy or scope.is_kernel:
            return ()
        self._busy.add(key)
        found = sorted(self._collect(scope, depth), key=lambda step: step.position)
        self._busy.discard(key)
        result = tuple(found[:_MOST_STEPS])
        if depth == 0 or not self._busy:
            self._known[key] = result
        return result

    def between(self, scope: Scope, low: int, high: int) -> list[Step]:
        """The steps that happen in (low, high]."""
        return [step for step in self.steps(scope) if low < step.position <= high]

    def captured(self, step: Step) -> bool:
        """Whether a step is recorded into a graph, between two calls, so that nothing is queued."""
        if not self._captures:
            return False
        places = (step.node, step.site)
        return any(begin < n.start < end for begin, end in self._captures for n in places)

    @cached_property
    def _captures(self) -> tuple[tuple[int, int], ...]:
        """From where to where a file captures its streams."""
        if not any(end in self.scopes.tree.text for end in _CAPTURE_ENDS):
            return ()
        spans: list[tuple[int, int]] = []
        begin: Node | None = None
        for call in sorted(self.scopes.calls, key=lambda node: node.start):
            name = last_segment(callee_text(call))
            if name.endswith(_CAPTURE_BEGINS):
                begin = call
            elif name.endswith(_CAPTURE_ENDS) and begin is not None:
                if self.scopes.scope_of(call) is self.scopes.scope_of(begin):
                    spans.append((begin.end, call.start))
                begin = None
        return tuple(spans)

    def _collect(self, scope: Scope, depth: int) -> Iterator[Step]:
        cpp = self.scopes.language == "cuda"
        for node in scope.nodes:
            if self.scopes.never_runs(node):
                continue
            if node.kind in ("call", "launch", "binary"):
                yield from self._call(node, scope, depth)
            elif node.kind == "with":
                yield from self._context(node, scope, depth)
            elif self._reads_number(node, scope):
                yield Step(node, node, frozenset({r.READ}), node.end)
            elif cpp and node.kind in ("assign", "declarator"):
                roles = self.roles.of(node, scope)
                if roles:
                    yield Step(node, node, roles, node.end)

    def _reads_number(self, node: Node, scope: Scope) -> bool:
        """Whether a place that is no call brings a number of the device to the host."""
        if node.kind == "interpolation":
            return self.roles.formats(node, scope)
        return node.kind == "subscript" and _OLD_NUMBER.fullmatch(squeeze(node.text)) is not None

    def _call(self, node: Node, scope: Scope, depth: int) -> Iterator[Step]:
        if self.host_only(node, scope):
            return
        function = None
        if node.kind == "call" and not self._may_wait(node, scope):
            function = self.scopes.called_function(node, scope)
        if function is not None and (heirs := self.scopes.overrides(function)):
            yield from self._of_choices(node, scope, depth, heirs)
            return
        if (
            function is not None
            and not self._compiled(function)
            and not function.is_kernel
            and not any("cuda.reduce" in d.text for d in function.decorators)
        ):
            inner = self._with_given(self.steps(function, depth + 1), node, function, depth)
            if not inner and _says_wait(function):
                yield Step(node, node, frozenset({r.WAIT}), node.end)
                return
            guessed = self.roles.of(node, scope) & {r.WORK} and not self._shows_all(function)
            if any(map(_is_telling, inner)) or not guessed or self._on_host(function):
                yield from self._at(inner, node, function)
                return
            yield from self._at(inner, node, function)
        known = self.roles.of(node, scope) if node.kind == "call" else frozenset()
        if function is None and node.kind == "call" and not known & _DECIDED:
            passed = self._parameter(node, scope, depth)
            if passed is not None:
                yield from passed
                return
        if function is None and not known and (ran := self._ran_inside(node, depth)):
            yield from ran
            return
        found = self.roles.of(node, scope)
        if function is not None and self._compiled(function):
            copies = known & {r.BLOCKING, r.COPY}  # Numba's, of arrays of the host
            found = frozenset() if _makes_kernel(function) else copies or frozenset({r.WORK})
        if function is not None and any("cuda.reduce" in d.text for d in function.decorators):
            found = frozenset({r.BLOCKING, r.COPY})
        if r.WORK in found and self._is_watched(node, scope, depth):
            found = (found - {r.WORK, r.LIKELY}) | {r.BLOCKING}
        if found:
            yield Step(node, node, found, node.end)

    def _with_given(
        self, inner: Sequence[Step], call: Node, function: Scope, depth: int
    ) -> Sequence[Step]:
        """The steps of a function, with what this call hands in for the callables that it calls.

        step(nodes, find_on_host) and step(nodes, find_on_device) do not do the same.
        """
        if call.kind != "call" or len(self.scopes.call_sites(function)) < 2:
            return inner
        found: list[Step] = []
        chosen: dict[int, list[Step] | None] = {}
        for step in inner:
            key = id(step.site)
            if key not in chosen:
                chosen[key] = self._given(step.site, call, function, depth)
                found += chosen[key] or []
            if chosen[key] is None:
                found.append(step)
        return found

    def _given(self, site: Node, call: Node, function: Scope, depth: int) -> list[Step] | None:
        """The steps of the file's function that `call` hands in for the one that `site` calls."""
        name = callee_text(site) if site.kind == "call" else ""
        if name not in function.parameters or self.scopes.scope_of(site) is not function:
            return None
        given = argument(call, function.parameters.index(name), name)
        if given is None or self.scopes.callable_value(given, self.scopes.scope_of(given)) is None:
            return None
        return self._choice(given, site, depth + 1)

    def _ran_inside(self, node: Node, depth: int) -> list[Step]:
        """The steps of lambdas of C++ that a macro or an algorithm of std runs before it returns.

        AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "scale", [&] { scale<<<...>>>(...); });
        """
        if self.scopes.language != "cuda" or node.kind != "call":
            return []
        if not _RUNS_LAMBDA.fullmatch(callee_text(node)):
            return []
        given = (self.scopes.by_node.get(id(a)) for a in positional(node) if a.kind == "lambda")
        return [
            step
            for function in given
            if function is not None
            for step in self._at(self.steps(function, depth + 1), node, function)
            if r.OPAQUE not in step.roles
        ]

    def _is_watched(self, node: Node, scope: Scope, depth: int) -> bool:
        """Whether a call is given a function of the file that looks at each of its steps.

        rollout(policy, callback=render): what waits or draws is called again and again.
        """
        if node.kind != "call" or self.scopes.language == "cuda":
            return False
        given = (k for c in node.children if c.kind == "args" for k in c.children)
        for each in given:
            if each.kind == "keyword" and _CALLBACK.match(each.text):
                function = self.scopes.callable_value(each.children[-1], scope)
                if function is not None and self._looks(function, depth):
                    return True
        return False

    def _looks(self, function: Scope, depth: int) -> bool:
        if any(step.waits for step in self.steps(function, depth + 1)):
            return True
        calls = (n for n in function.nodes if n.kind == "call")
        return any(_DRAWS.match(last_segment(callee_text(call))) for call in calls)

    def _may_wait(self, node: Node, scope: Scope) -> bool:
        """Whether a variable that is called may hold a wait: sync = torch.cuda.synchronize."""
        aliased = callee_text(node) in self.scopes.call_aliases
        return aliased and bool(self.roles.of(node, scope) & {r.WAIT, r.CLOCK})

    def _at(self, steps: Iterable[Step], site: Node, helper: Scope) -> Iterator[Step]:
        for step in steps:
            if self._is_declined(step, site, helper):
                continue
            # sum += value * count in a meter's update() is not what a window is about.
            if r.ARITHMETIC not in step.roles or not helper.class_name:
                yield replace(step, site=site, position=site.end, helpers=(helper, *step.helpers))

    def _is_declined(self, step: Step, site: Node, helper: Scope) -> bool:
        """Whether a call says no to the branch of a function in which a step stands.

        def run(x, sync=True): ...; if sync: torch.cuda.synchronize(), called as run(x, sync=False);
        or the one of its else, if a call says yes.
        """
        if site.kind != "call" or self.scopes.language == "cuda" or "**" in site.text:
            return False
        child = step.site
        for parent in child.ancestors():
            if parent is helper.node:
                break
            asked = _FLAG.fullmatch(parent.children[0].text) if parent.kind == "if" else None
            if asked and asked[2] in helper.parameters and child.kind in ("block", "else"):
                denied = "True" if bool(asked[1]) is (child.kind == "block") else "False"
                if self._said(asked[2], site, helper) == denied:
                    return True
            child = parent
        return False

    def _said(self, parameter: str, site: Node, helper: Scope) -> str:
        """The text of what a call gives a parameter, or of its default."""
        if any(n.kind == "assign" and n.children[0].text == parameter for n in helper.nodes):
            return ""
        given = argument(site, helper.parameters.index(parameter), parameter)
        if given is not None:
            return given.text
        default = re.search(r"=\s*(\w+)\s*$", helper.parameter_text(parameter))
        return default[1] if default else ""

    def _compiled(self, function: Scope) -> bool:
        return any(
            re.search(r"\bjit\b|pmap|cuda\.jit|torch\.compile|\b(ti|taichi)\.kernel\b", d.text)
            or words.CUDA_UFUNC.search(d.text)
            for d in function.decorators
        )

    def _parameter(self, node: Node, scope: Scope, depth: int) -> list[Step] | None:
        """The steps of a callable parameter; None if what is called is not one."""
        function = node.children[0]
        listed = members.values(self.scopes, function, scope)
        if listed:
            return self._of_choices(node, scope, depth, listed)
        if function.kind != "name":
            return None
        name = squeeze(function.text)
        owner = next((s for s in scope.enclosing() if name in s.parameters), None)
        if owner is None or (self.scopes.assignments(name, scope) and owner is not scope):
            return None
        if self.scopes.language == "cuda" and _is_data(owner.parameter_text(name)):
            return None
        return self._of_choices(node, scope, depth, self.passed(owner, name))

    def _of_choices(
        self, node: Node, scope: Scope, depth: int, values: Sequence[Node | Scope]
    ) -> list[Step]:
        """The steps of a call of one of several callables, of which the file shows `values`."""
        choices = [self._choice(value, node, depth) for value in values]
        known = [choice for choice in choices if choice is not None]
        # Of two that leave nothing, the one of which more is known.
        best = max(known, key=lambda steps: (leftover(steps), len(steps))) if known else []
        if best or (values and all(self._host_callable(value) for value in values)):
            return best
        found = self.roles.of(node, scope)
        if not found and _NO_WORK.search(callee_text(node)):
            return []  # print_fn("starting"), log(...): what is passed in writes
        if not found and any(self._host_callable(value) for value in values):
            return []  # np.matmul and others that are not known: what it measures is on the host
        if not found and any(self.roles.devices.was_fetched(v, scope) for v in positional(node)):
            return []  # a module that takes tensors of the host is there as well
        return [Step(node, node, found or frozenset({r.OPAQUE}), node.end)]

    def _host_callable(self, value: Node | Scope) -> bool:
        """Whether all that a callable calls is known to run on the host."""
        scope = value if isinstance(value, Scope) else None
        if scope is None and isinstance(value, Node):
            scope = self.scopes.callable_value(value, self.scopes.scope_of(value))
            if scope is None:
                full = self.scopes.resolve(value.text)
                return full.partition(".")[0] in words.HOST_MODULES or full in words.HOST_CALLS
        return scope is not None and self._on_host(scope)

    def _shows_all(self, function: Scope, depth: int = 0) -> bool:
        """Whether a C++ function hands what it is given to nothing but functions of the file."""
        if self.scopes.language != "cuda" or depth > _DEEPEST:
            return False
        for call in (n for n in function.nodes if n.kind == "call"):
            inner = self.scopes.called_function(call, function)
            if inner is not None and not self._shows_all(inner, depth + 1):
                return False
            name = callee_text(call)
            given = {base_name(a.text) for a in positional(call)}
            if (
                inner is None
                and not words.CPP_HOST.match(name)
                and given & set(function.parameters)
            ):
                return False
        return True

    def _on_host(self, function: Scope) -> bool:
        """Whether a function calls something, and only what is known to run on the host.

        That is also itself, what makes the error that it raises, and what tells of the device.
        """
        calls = [n for n in function.nodes if n.kind == "call"]
        return bool(calls) and all(
            name.partition(".")[0] in words.HOST_MODULES
            or name in words.HOST_CALLS
            or (name == function.short_name and not function.class_name)
            or _TELLS.search(name) is not None
            or (call.parent is not None and call.parent.kind == "raise")
            or (name.endswith(".decode") and any(a.kind == "string" for a in positional(call)))
            for call in calls
            for name in (self.scopes.resolve(callee_text(call)),)
        )

    def handed_in(self, call: Node, scope: Scope) -> list[Scope]:
        """The functions of the file that a call of a callable parameter may run."""
        name = squeeze(call.children[0].text) if call.children else ""
        owner = next((s for s in scope.enclosing() if name in s.parameters), None)
        if owner is None or self.scopes.assignments(name, scope):
            return []
        found: dict[int, Scope] = {}
        for value in self.passed(owner, name):
            function = value if isinstance(value, Scope) else None
            if isinstance(value, Node):
                function = self.scopes.callable_value(value, self.scopes.scope_of(value))
            if function is not None:
                found[id(function)] = function
        return list(found.values())

    def passed(self, owner: Scope, name: str) -> list[Node | Scope]:
        """What the file passes as the callable parameter `name` of `owner`."""
        values: list[Node | Scope] = []
        for value in self.scopes.argument_values(owner, name):
            values += members.values(self.scopes, value, self.scopes.scope_of(value)) or [value]
        for scope in self.scopes.all:
            for decorator in scope.decorators:
                text = squeeze(decorator.text).lstrip("@").partition("(")[0]
                outer = owner if owner.short_name == text else owner.parent
                if outer is not None and outer.short_name == text:
                    values.append(scope)
        return values

    def _choice(self, value: Node | Scope, site: Node, depth: int) -> list[Step] | None:
        if isinstance(value, Scope):
            return list(self._at(self.steps(value, depth + 1), site, value))
        scope = self.scopes.scope_of(value)
        function = self.scopes.callable_value(value, scope)
        if function is not None and not self._compiled(function):
            return list(self._at(self.steps(function, depth + 1), site, function))
        device = self.roles.devices.of(value, scope)
        if device == "device" or function is not None or self.roles.is_operator(value):
            return [Step(site, site, frozenset({r.WORK}), site.end)]
        if value.kind == "name":
            key = squeeze(value.text)
            if key in scope.parameters and scope.name:
                deeper = self.passed(scope, key) if depth < 2 else []
                chosen = [c for v in deeper if (c := self._choice(v, site, depth + 1)) is not None]
                if chosen:
                    return max(chosen, key=leftover)
        return None

    def _context(self, node: Node, scope: Scope, depth: int) -> Iterator[Step]:
        for item in node.children:
            call = item.children[0] if item.kind == "item" and item.children else None
            if call is None:
                continue
            if call.kind == "call":
                enter, leave = self.manager(call, scope, depth)
            elif call.kind == "name":
                enter, leave = self._of_object(call, scope, depth)
            else:
                continue
            for step in enter:
                yield replace(step, site=item, position=item.end)
            for step in leave:
                yield replace(step, site=node, position=node.end)

    def _of_object(self, name: Node, scope: Scope, depth: int) -> tuple[list[Step], list[Step]]:
        """Steps at entry and exit of an object of a class of the file: `with timer:`."""
        made = self.scopes.class_of(squeeze(name.text), scope, name)
        methods = self.scopes.classes.get(made, []) if made else []
        enter = [s for m in methods if m.name == "__enter__" for s in self.steps(m, depth + 1)]
        leave = [s for m in methods if m.name == "__exit__" for s in self.steps(m, depth + 1)]
        return enter, leave

    def manager(self, call: Node, scope: Scope, depth: int = 0) -> tuple[list[Step], list[Step]]:
        """Steps at entry and exit of a context manager that the file defines."""
        name = last_segment(callee_text(call))
        methods = self.scopes.classes.get(name, [])
        enter = [
            s
            for m in methods
            if m.name in ("__init__", "__enter__")
            for s in self.steps(m, depth + 1)
        ]
        leave = [s for m in methods if m.name == "__exit__" for s in self.steps(m, depth + 1)]
        function = self.scopes.called_function(call, scope)
        if function is not None and not function.class_name:
            cut = next((n.start for n in function.nodes if n.kind == "yield"), None)
            if cut is not None:
                inner = self.steps(function, depth + 1)
                enter = [s for s in inner if s.position <= cut]
                leave = [s for s in inner if s.position > cut]
        return enter, leave

    def host_only(self, node: Node, scope: Scope) -> bool:
        """Whether `node` lies in a branch that runs only where there is no device."""
        if self.scopes.language == "cuda":
            return False
        child = node
        for parent in node.ancestors():
            if parent.kind == "block" and self._after_device_branch(parent, child):
                return True
            if parent.kind in ("function", "lambda", "module"):
                return False
            if parent.kind in ("if", "elif", "else") and self._host_branch(parent, child):
                return True
            child = parent
        return False

    def _after_device_branch(self, block: Node, child: Node) -> bool:
        """Whether `if device == "cuda": ...; return` stands before `child`."""
        for statement in block.children:
            if statement is child:
                return False
            if statement.kind == "if" and device_condition(statement.children[0].text):
                body = statement.child("block")
                if body and body.children and body.children[-1].kind == "return":
                    return not any(c.kind in ("elif", "else") for c in statement.children)
        return False

    def _host_branch(self, branch: Node, child: Node) -> bool:
        if branch.kind in ("if", "elif"):
            condition = branch.children[0]
            if child.kind in ("elif", "else") or child is condition:
                return False
            return host_condition(condition.text)
        owner = branch.parent
        if owner is None or owner.kind != "if":
            return False
        if _computes_on_host(branch.text) and _ON_DEVICE.search(owner.text[: -len(branch.text)]):
            return True
        conditions = [owner.children[0].text]
        conditions += [
            c.children[0].text for c in owner.children if c.kind == "elif" and c.children
        ]
        return any(device_condition(text) for text in conditions)


# Types that hold data: view(row, column) is a member of them and no call of a function, nor is
# a number that is drawn from a distribution.
_HOLDS_DATA = re.compile(
    r"((span|view|matrix|vector|tensor|array|accessor)(_?(ref|type|t|\d+))*|_distribution"
    r"|(mt19937|minstd|ranlux)\w*|random_(device|engine))\b",
    re.IGNORECASE,
)


def _is_telling(step: Step) -> bool:
    """Whether a step of a function shows what it does with the device: more than a new buffer."""
    return step.works or bool(step.roles - {r.ALLOC, r.IO})


def _is_data(parameter: str) -> bool:
    """Whether a parameter of C++ is declared as data, and not as a function or of any type."""
    kind = re.sub(r"\w+\s*$", "", parameter)
    return bool(_HOLDS_DATA.search(kind)) and not re.search(r"function\b|\(", kind)


# What is passed in writes, or makes an object: print_fn("starting"), sharder_class()
_NO_WORK = re.compile(
    r"(^|_)(print|log|logger|echo|report|emit|notify|warn|debug|info)(_|$)|(^|_)(cls|class|klass)$"
)


# What only says how the device is, or what is wrong with it.
_TELLS = re.compile(
    r"(^|\.)torch\.cuda\.(is_\w+|current_device|device_count|get_device_\w+|mem_get_info|"
    r"(max_)?memory_(allocated|reserved)|utilization)$|[eE]rror_?(String|Name|string|name)$"
)


def _says_wait(function: Scope) -> bool:
    """Whether a helper that gets at the library in a roundabout way says that it synchronizes."""
    return bool(
        re.fullmatch(r"_*(device_|cuda_|gpu_)?sync(hronize)?(_\w+)?", function.short_name)
    ) and ("sync" in function.node.text[function.node.text.find(":") :])


def _makes_kernel(function: Scope) -> bool:
    """Whether a function returns a function that is defined in it: calling it launches nothing."""
    inner = {child.short_name for child in function.children if child.name}
    returned = {n.children[0].text for n in function.nodes if n.kind == "return" and n.children}
    return bool(returned) and returned <= inner


_NO_DEVICE = re.compile(
    r"^not\s*\(?\s*([\w.]*\.)?((use|has|is|with)_?)?(cuda|gpu)(_available)?\s*\)?$"
    r"|^not\s+[\w.]*\.is_available\(\)$"
)


# Code for either array module asks which one it was given: xp is np, xp.__name__ == "numpy"
_NUMPY_CHOSEN = re.compile(
    r"\(?(self\.)?\w+( is |\s*==\s*)(np|numpy)\)?|\(?\w+\.__name__\s*==\s*[\"']numpy[\"']\)?"
)
_ARRAYS_CHOSEN = re.compile(
    r"\(?(self\.)?\w+(( is |\s*==\s*)(cp|cupy)|( is not |\s*!=\s*)(np|numpy))\)?"
    r"|\(?\w+\.__name__\s*(==\s*[\"']cupy|!=\s*[\"']numpy)[\"']\)?"
)


# What a branch for a device speaks of, and one for the host: torch.cpu.amp.autocast(...).
_ON_DEVICE = re.compile(r"cuda|xpu|(?<![a-z])(mps|hpu|npu)")
_ON_HOST = re.compile(r"torch\.cpu\.|autocast\(\s*(device_type\s*=\s*)?[\"']cpu")


def _computes_on_host(text: str) -> bool:
    """Whether a branch computes on the host by its own words, and speaks of no device."""
    return _ON_HOST.search(text) is not None and _ON_DEVICE.search(text) is None


@lru_cache(maxsize=_REMEMBERED)
def host_condition(text: str) -> bool:
    """A condition that holds only where there is no device; one part of an `and` is enough."""
    return any(_host_part(part.strip()) for part in re.split(r"\band\b", text))


def _host_part(text: str) -> bool:
    tight = squeeze(text)
    names_host = re.search(
        r"==[\"']cpu[\"']|[\"']cpu[\"']in|is_cpu|use_cpu|startswith\([\"']cpu", tight
    )
    if names_host and not re.search(r"!=|\bnot\b|\bor\b", text):
        return True
    if _NO_DEVICE.search(text) or _NUMPY_CHOSEN.fullmatch(text):
        return True
    other = re.search(r"!=[\"'](cuda|gpu)[\"']", tight)
    return other is not None and "cpu" not in tight and "mps" not in tight


# Before torch 0.5 the number in a tensor was read so: loss.data[0]
_OLD_NUMBER = re.compile(r"[\w.]*(loss|err|cost|prec|acc)\w*\.data\[0\]", re.IGNORECASE)
_CAPTURE_BEGINS = ("BeginCapture", "begin_capture", "capture_begin")
_CAPTURE_ENDS = ("EndCapture", "end_capture", "capture_end")
_FLAG = re.compile(r"(not\s+)?(\w+)")
# What a condition denies: enabled and not torch.cuda.is_available()
_DENIED = re.compile(r"\bnot\s+(?!in\b)[\w.]+(?:\([^()]*\))?")


@lru_cache(maxsize=_REMEMBERED)
def device_condition(text: str) -> bool:
    """A condition that holds where there is a device, so that its else runs on the host."""
    if _ARRAYS_CHOSEN.fullmatch(text):
        return True
    text = squeeze(_DENIED.sub("", text))
    if re.search(r"!=|^not|notin", text):
        return bool(re.search(r"!=[\"']cpu[\"']", text))
    return bool(
        re.search(
            r"==[\"'](cuda|gpu|mps|xpu)[\"']|[\"'](cuda|mps|xpu|gpu)[\"']in|startswith\([\"']cuda",
            text,
        )
        or re.search(r"(cuda|xpu|mps)\.is_available\(\)", text)
        or re.search(
            r"(is_cuda|use_cuda|use_gpu|on_gpu|is_gpu|cuda_available|has_cuda|torch_device_is_cuda)"
            r"(?!_?graph)",
            text,
        )
    )


def leftover(steps: Sequence[Step]) -> int:
    """2: work is left when the steps end; 1: work was done; 0: none."""
    if pending(steps) is not None:
        return 2
    return 1 if any(s.works or r.BLOCKING in s.roles for s in steps) else 0


def pending(steps: Iterable[Step]) -> Step | None:
    """The last step that left work on the device for which no later step waits.

    A wait in the other branch of an `if` does not wait for the work in this one, unless the
    condition asks for just that: if (async) launch(); else { launch(); wait(); }
    """
    left: list[Step] = []
    for step in steps:
        if step.works:
            left = [*left[-_MOST_LEFT:], step]
        elif left and (step.waits or r.HARNESS in step.roles):
            left = [work for work in left if _escapes(work.site, step.site)]
    return left[-1] if left else None


def _escapes(work: Node, wait: Node) -> bool:
    """Whether work lies in another branch than a wait, and not on purpose."""
    if not exclusive(work, wait):
        return False
    conditions = (p.children[0].text for p in work.ancestors() if p.kind == "if" and p.children)
    return not any(re.search(r"async|sync", text, re.IGNORECASE) for text in conditions)


def exclusive(one: Node, two: Node) -> bool:
    """Whether two places lie in branches of one `if`, `switch` or `?:`, of which one is taken."""
    branches = {}
    child = one
    for parent in one.ancestors():
        if _chooses(parent, child):
            branches[id(parent)] = child
        child = parent
    child = two
    for parent in two.ancestors():
        other = branches.get(id(parent))
        if other is not None and other is not child and _chooses(parent, child):
            return parent.kind != "switch" or _breaks(min(other, child, key=lambda n: n.start))
        child = parent
    return False


def leaves_before(one: Node, two: Node) -> bool:
    """Whether what does `one` leaves the function before it could come to `two`.

    It stands in a branch or a handler that ends with `raise` or `return`; `finally` comes still.
    """
    if any(p.kind == "finally" and not p.start <= one.start < p.end for p in two.ancestors()):
        return False
    return any(
        parent.kind == "block"
        and parent.end <= two.start
        and parent.parent is not None
        and parent.parent.kind in ("if", "elif", "else", "except")
        and parent.children[-1:] != []
        and parent.children[-1].kind in ("raise", "return")
        for parent in one.ancestors()
    )


def _chooses(parent: Node, child: Node) -> bool:
    """Whether `child` is one of the branches between which `parent` chooses."""
    if parent.kind == "if":
        return bool(parent.children) and child is not parent.children[0]
    if parent.kind == "cond" and len(parent.children) == 3:
        return child is not parent.children[1 if parent.tree.language == "python" else 0]
    return child.kind == "case" and parent.parent is not None and parent.parent.kind == "switch"


def _breaks(case: Node) -> bool:
    """Whether a case of a switch does not fall through to the next."""
    last = case.children[-1]
    while last.kind == "block" and last.children:
        last = last.children[-1]
    return last.kind in ("jump", "return")
