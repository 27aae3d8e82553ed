"""Functions, names and call sites of one file.

A `Scope` is the module, a function or a lambda. Nodes belong to the innermost scope around them.
`Scopes` resolves a name to what it stands for: an imported name, a function of the file, or the
values that are assigned to it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

from perf_timing.lint.facts import Node, Tree

_REMEMBERED = 16_384  # short texts, of which each is asked for many times
_LOOPS = frozenset({"for", "while", "comp"})

# The functions that test frameworks call, in any order.
_TEST = {
    "python": re.compile(r"test_"),
    "cuda": re.compile(r"(?:\w+_)?(?:TEST|SCENARIO|TEST_CASE)(?:_[A-Z_]+)?$"),
}


# Decorators with which a function runs once for what it is given.
_REMEMBERS = re.compile(r"@(\w+\.)*(\w+_)?cached?(\(.*\))?$")


class Scope:
    """The module, a function or a lambda: its own nodes, without those of scopes inside it."""

    def __init__(self, node: Node, parent: "Scope | None", owner: Node | None) -> None:
        self.node = node
        self.parent = parent
        self.owner = owner  # the class around it, for a method
        self.nodes: list[Node] = []
        self.decorators: list[Node] = []
        self.children: list[Scope] = []

    def __repr__(self) -> str:
        return f"<Scope {self.name} {self.node.line}>"

    @cached_property
    def name(self) -> str:
        """The function's name; "" for the module and for lambdas."""
        if self.node.kind != "function":
            return ""
        if self._declarator is not None:
            head = re.match(r"[\s*&]*([\w:~]+)", self._declarator.text)
            return head[1] if head else ""
        leaf = self.node.child("name")
        return leaf.text if leaf else ""

    @cached_property
    def _declarator(self) -> Node | None:
        """Where a function of C++ says its name and its parameters."""
        if self.node.kind != "function" or self.node.tree.language != "cuda":
            return None
        return next((n for n in self.node.walk() if n.kind == "declarator"), None)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters in order, `self` and `cls` left out."""
        cpp = self.node.tree.language == "cuda"
        names = [parameter_name(part, cpp) for part in self._declared]
        return tuple(name for name in names if name and name not in ("self", "cls"))

    @cached_property
    def _declared(self) -> tuple[str, ...]:
        """The text of each parameter."""
        if self.node.kind == "module":
            return ()
        holder = self._declarator or self.node
        if self.node.tree.language == "cuda":
            params = next((n for n in holder.walk() if n.kind == "params"), None)
        else:
            params = holder.child("params")
        if params is None:
            return ()
        comment = r"//.*|/\*.*?\*/" if self.node.tree.language == "cuda" else r"#.*"
        return tuple(split_top(re.sub(comment, "", params.text).strip("()")))

    def parameter_text(self, name: str) -> str:
        """How a function declares the parameter `name`, or ""."""
        cpp = self.node.tree.language == "cuda"
        return next((part for part in self._declared if parameter_name(part, cpp) == name), "")

    @cached_property
    def is_kernel(self) -> bool:
        """Device code: runs on the GPU, holds nothing that the host times."""
        if self.node.kind != "function":
            return False
        head = self.node.text[: max(0, (self.body.start if self.body else 0) - self.node.start)]
        if "__global__" in head or ("__device__" in head and "__host__" not in head):
            return True
        return any(re.search(r"triton\.jit|cute\.kernel|tl\.jit|gluon\.jit|T\.prim_func", d.text)
                   for d in self.decorators)  # fmt: skip

    @cached_property
    def remembers(self) -> bool:
        """Whether a function of Python runs once and then gives what it gave.

        @lru_cache, @functools.cache, @disk_cache("kernels"), @cached.
        """
        return any(_REMEMBERS.search(squeeze(d.text)) for d in self.decorators)

    @cached_property
    def is_async(self) -> bool:
        text = self.node.tree.text
        return (
            self.node.kind == "function" and text[self.node.start : self.node.start + 5] == "async"
        )

    @cached_property
    def body(self) -> Node | None:
        if self.node.kind == "lambda":
            block = self.node.child("block")
            last = self.node.children[-1] if self.node.children else None
            return block if block is not None else last
        return self.node.child("block")

    @cached_property
    def class_name(self) -> str:
        leaf = self.owner.child("name") if self.owner else None
        if leaf is None and "::" in self.name:
            return self.name.rpartition("::")[0]
        return leaf.text if leaf else ""

    @cached_property
    def inner_functions(self) -> "dict[str, list[Scope]]":
        """The functions inside of this scope, by their (last) name."""
        found: dict[str, list[Scope]] = defaultdict(list)
        for child in self.children:
            found[child.short_name].append(child)
        return found

    @cached_property
    def short_name(self) -> str:
        return self.name.rpartition("::")[2]

    @cached_property
    def is_test(self) -> bool:
        """Whether a test framework runs the function: TEST(...), TEST_CASE(...), def test_x()."""
        return _TEST[self.node.tree.language].match(self.name) is not None

    @cached_property
    def names(self) -> dict[str, list[Node]]:
        """Where each (dotted) name stands in the scope, in order."""
        found: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            if node.kind == "name":
                found[node.text].append(node)
        return found

    def enclosing(self) -> Iterator["Scope"]:
        """This scope and those around it, inside out."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


def split_top(text: str) -> list[str]:
    """`text` split at the commas outside brackets and strings."""
    parts, depth, start, quote = [], 0, 0, ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([{<" and not (c == "<" and text[i + 1 : i + 2] in " ="):
            depth += 1
        elif c in ")]}" or (c == ">" and depth > 0 and text[i - 1 : i] not in "-="):
            depth -= 1
        elif c == "," and depth <= 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]


# A pointer to a function, or a reference to an array: void (*run)(float *, int), T (&x)[4].
_POINTED = re.compile(r"\(\s*(?:\w+::)?[*&]+\s*(?:const\s+)?(\w+)\s*\)\s*[(\[]")


def parameter_name(text: str, cpp: bool) -> str:
    """The name that one parameter declares."""
    if cpp:
        pointed = _POINTED.search(text)
        if pointed is not None:
            return pointed[1]
        names = re.findall(r"[A-Za-z_]\w*", text.partition("=")[0])
        return names[-1] if names else ""
    found = re.match(r"\s*\**\s*([A-Za-z_]\w*)", text)
    return found[1] if found else ""


@lru_cache(maxsize=_REMEMBERED)
def squeeze(text: str) -> str:
    """`text` without white space: the key under which equal expressions compare equal."""
    return "".join(text.split())


@lru_cache(maxsize=_REMEMBERED)
def last_segment(name: str) -> str:
    """`synchronize` of `torch.cuda.synchronize`, `now` of `std::chrono::steady_clock::now`."""
    name = name[name.rfind(".") + 1 :]
    name = name[name.rfind("::") + 2 :] if "::" in name else name
    return name[name.rfind("->") + 2 :].strip() if "->" in name else name.strip()


def base_name(expression: str) -> str:
    """The name in front of an expression's first dot or bracket; of self.x it is `self.x`."""
    found = re.match(r"[&*(\s]*((?:(?:self|this|cls)\s*(?:\.|->)\s*)?[A-Za-z_]\w*)", expression)
    return squeeze(found[1]).replace("this->", "self.") if found else ""


class Scopes:
    """All scopes of a tree, and what its names stand for."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.language = tree.language
        self.module = Scope(tree.root, None, None)
        self.all: list[Scope] = [self.module]
        self._scope_of: dict[int, Scope] = {}
        self._by_scope: dict[str, dict[int, list[tuple[Node, Node]]]] = {}
        self._collect()

    def _collect(self) -> None:
        stack: list[tuple[Node, Scope, Node | None]] = [(self.tree.root, self.module, None)]
        while stack:
            node, scope, owner = stack.pop()
            kind = node.kind
            scope.nodes.append(node)
            self._scope_of[id(node)] = scope
            if kind == "function" or kind == "lambda":
                inner = Scope(node, scope, owner if kind == "function" else scope.owner)
                inner.decorators = _decorators(node)
                scope.children.append(inner)
                self.all.append(inner)
                scope, owner = inner, None if kind == "function" else owner
            elif kind == "class":
                owner = node
            if node.children:
                stack += [(child, scope, owner) for child in node.children[::-1]]

    def scope_of(self, node: Node) -> Scope:
        """The innermost scope that holds `node` (for a function node: the scope around it)."""
        return self._scope_of[id(node)]

    @cached_property
    def by_node(self) -> dict[int, Scope]:
        return {id(scope.node): scope for scope in self.all}

    @cached_property
    def functions(self) -> dict[str, list[Scope]]:
        """Functions by their (last) name."""
        found: dict[str, list[Scope]] = defaultdict(list)
        for scope in self.all:
            if scope.name:
                found[scope.short_name].append(scope)
        return found

    @cached_property
    def macros(self) -> dict[str, str]:
        """What a macro of C++ stands for, by its name."""
        found = {}
        for node in self.tree.of_kind("macro") if self.language == "cuda" else ():
            head = re.match(r"#\s*define\s+(\w+)", node.text)
            if head:
                found[head[1]] = node.text[head.end() :]
        return found

    @cached_property
    def classes(self) -> dict[str, list[Scope]]:
        """Methods by the name of their class."""
        found: dict[str, list[Scope]] = defaultdict(list)
        for scope in self.all:
            if scope.name and scope.class_name:
                found[scope.class_name].append(scope)
        return found

    @cached_property
    def class_names(self) -> frozenset[str]:
        return frozenset(
            leaf.text for node in self.tree.of_kind("class") if (leaf := node.child("name"))
        )

    @cached_property
    def imports(self) -> dict[str, str]:
        """Names that import statements bind, and the full names that they stand for."""
        bound: dict[str, str] = {}
        if self.language == "cuda":
            for name, target in re.findall(r"\busing\s+(\w+)\s*=\s*([\w:]+)\s*;", self.tree.text):
                bound[name] = target
            return bound
        for node in self.tree.of_kind("import"):
            bound.update(imported(node.text))
        return bound

    @cached_property
    def call_aliases(self) -> dict[str, list[str]]:
        """Names that are assigned a dotted name: `sync = torch.cuda.synchronize`."""
        found: dict[str, list[str]] = defaultdict(list)
        for scope in self.all:
            for node in scope.nodes:
                if node.kind == "assign" and len(node.children) == 2:
                    target, value = node.children
                    names = [value] if value.kind == "name" else []
                    if value.kind == "cond":
                        names = [c for c in value.children if c.kind == "name" and "." in c.text]
                    for name in names:
                        if "." in name.text and target.kind == "name":
                            found[squeeze(target.text)].append(squeeze(name.text))
        return found

    def resolve(self, name: str) -> str:
        """The full name behind `name`: import aliases and `name = dotted.name` are followed."""
        name = squeeze(name)
        aliased = self.call_aliases.get(name)
        if aliased:
            name = aliased[0]
        separator = "::" if self.language == "cuda" else "."
        head, dot, rest = name.partition(separator)
        if head in self.imports:
            return self.imports[head] + dot + rest
        return name

    @cached_property
    def _assigned(self) -> dict[str, list[tuple[Node, Node]]]:
        """For each key, the (target, value) pairs of all assignments in the file, in order."""
        found: dict[str, list[tuple[Node, Node]]] = defaultdict(list)
        kinds = ("assign", "named", "item")
        for node in self.tree.of_kind(
            *kinds, *(("init", "decl") if self.language == "cuda" else ())
        ):
            for target, value in _pairs(node):
                found[target_key(target)].append((target, value))
        return found

    def _assigned_in(self, key: str) -> dict[int, list[tuple[Node, Node]]]:
        """The assignments to `key`, by the id of the scope that holds them."""
        found = self._by_scope.get(key)
        if found is None:
            found = self._by_scope[key] = {}
            for pair in self._assigned.get(key, ()):
                found.setdefault(id(self.scope_of(pair[0])), []).append(pair)
        return found

    def assignments(self, key: str, scope: Scope | None = None) -> list[tuple[Node, Node]]:
        """(target, value) pairs that assign to `key` (see `target_key`), in order.

        With a scope: of the innermost scope around it that assigns to the name at all.
        """
        pairs = self._assigned.get(key, [])
        if scope is None or not pairs or key.startswith("self."):
            return pairs
        for around in scope.enclosing():
            own = self._assigned_in(key).get(id(around), [])
            if own or key in around.parameters:
                return own
        # A key or an attribute of some object: any function may have set it.
        return pairs if "." in key or "[" in key else []

    def stored_in(self, key: str) -> list[Node]:
        """The values that are stored under keys of a dictionary: cases["mm"] = run."""
        return [value for _, value in self._stored.get(key, ())]

    @cached_property
    def _stored(self) -> dict[str, list[tuple[Node, Node]]]:
        found: dict[str, list[tuple[Node, Node]]] = defaultdict(list)
        for node in self.tree.of_kind("assign"):
            target = node.children[0] if len(node.children) > 1 else None
            if target is not None and target.kind == "subscript" and target.children:
                found[squeeze(target.children[0].text)].append((target, node.children[-1]))
        return found

    def definition(self, node: Node, key: str, scope: Scope) -> Node | None:
        """The value that `key` most likely has at `node`: the last assignment before it."""
        pairs = self.assignments(key, scope)
        before = [value for target, value in pairs if target.end <= node.start]
        if before:
            return before[-1]
        return pairs[-1][1] if pairs else None

    def never_runs(self, node: Node) -> bool:
        """Whether `node` is in a branch whose condition is false as the file stands: if (0)."""
        return any(low <= node.start < high for low, high in self._dead)

    @cached_property
    def _dead(self) -> tuple[tuple[int, int], ...]:
        text = self.tree.text
        false = {"False", "false", "0"}
        if self.language == "cuda":
            constant = r"\b(?:constexpr|const)\s+(?:static\s+)?bool\s+(\w+)\s*(?:=\s*|\{\s*)(\w+)"
            values = dict.fromkeys(re.findall(constant, text))
            named = [name for name, _ in values]
            false |= {n for n, value in values if value in false and named.count(n) == 1}
        branches = [n for n in self.tree.of_kind("if") if len(n.children) > 1]
        return tuple(
            (branch.children[1].start, branch.children[1].end)
            for branch in branches
            if branch.children[0].text.strip("( )") in false
        )

    @cached_property
    def calls(self) -> list[Node]:
        """All calls and launches in order of the source."""
        return self.tree.of_kind("call", "launch")

    @cached_property
    def calls_by_name(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = defaultdict(list)
        for call in self.calls:
            found[last_segment(callee_text(call))].append(call)
        return found

    def called_function(self, call: Node, scope: Scope) -> Scope | None:
        """The function of this file that `call` runs, where that can be told."""
        function = call.children[0] if call.children else None
        if function is None:
            return None
        if function.kind == "lambda":
            return self.by_node.get(id(function))
        return self.function_named(callee_text(call), scope, call)

    def function_named(self, name: str, scope: Scope, at: Node) -> Scope | None:
        """The function of this file that the (dotted) `name` stands for at a place."""
        name = squeeze(name)
        short = last_segment(name)
        receiver = name[: -len(short)].rstrip(".:->")
        if not receiver:
            return self._plain_function(name, scope, at)
        if self.language == "python" and receiver in ("self", "cls", "super()"):
            return self._method(scope, short)
        candidates = self.functions.get(short, [])
        owned = [c for c in candidates if c.class_name]
        if receiver in self.imports or not owned:
            return None
        class_name = self.class_of(receiver, scope, at)
        for name in (class_name, *self.bases.get(class_name, [])):
            found = [c for c in owned if name and c.class_name == name]
            if found:
                return _called_so(found, at)[0] if self.language == "cuda" else found[0]
        return None

    @cached_property
    def bases(self) -> dict[str, list[str]]:
        """The classes of the file that a class of C++ inherits from, nearest first."""
        if self.language != "cuda":
            return {}
        direct: dict[str, list[str]] = {}
        for name, listed in re.findall(_INHERITS, self.tree.text):
            parts = [re.sub(r"<.*", "", part).split() for part in split_top(listed)]
            direct[name] = [last_segment(part[-1]) for part in parts if part]
        found = {name: [*listed] for name, listed in direct.items()}
        for listed in found.values():
            for base in listed:  # grows while it is read
                listed += [b for b in direct.get(base, []) if b not in listed]
        return found

    def _plain_function(self, name: str, scope: Scope, at: Node) -> Scope | None:
        for around in scope.enclosing():
            if name in around.parameters:
                return None
            named = around.inner_functions.get(name, ())
            if named and self.language == "cuda":
                return _namesake(_called_so(named, at), scope)
            for child in named:
                if not child.class_name:
                    return child
        if name in self._functors:
            return self._functors[name]
        value = self.definition(at, name, scope)
        if value is not None:
            return self.callable_value(value, scope)
        if name in self.class_names:
            return None
        found = self.functions.get(name, [])
        return found[0] if len(found) == 1 and not found[0].class_name else None

    def callable_value(self, value: Node, scope: Scope) -> Scope | None:
        """The function that a value is: a lambda, a name, a partial, a wrapped or built object."""
        if value.kind == "lambda":
            return self.by_node.get(id(value))
        if value.kind == "name":
            key = squeeze(value.text)
            if key.partition(".")[0] in self.imports and "." in key:
                return None  # torch.ops.lib.name, whatever this file calls `name`
            found = self.functions.get(last_segment(key), [])
            plain = [f for f in found if not f.class_name or key.startswith("self.")]
            if not found:
                return self._returned_closure(value, key, scope)
            return plain[0] if len(plain) == 1 else None
        if value.kind == "call":
            name = callee_text(value)
            class_name = last_segment(name)
            if class_name in self.class_names:
                methods = self.classes.get(class_name, [])
                for wanted in ("__call__", "forward"):
                    for method in methods:
                        if method.name == wanted:
                            return method
                return None
            arguments = positional(value)
            if arguments and _WRAPS.search(class_name):
                return self.callable_value(arguments[0], scope)
            # Module().cuda().eval(): the object in front of the chain.
            inner = value.children[0]
            if inner.kind == "attribute" and inner.children and inner.children[0].kind == "call":
                return self.callable_value(inner.children[0], scope)
        return None

    def callable_values(self, value: Node, scope: Scope) -> list[Scope]:
        """The functions that a value may be: of fast if quick else exact, both."""
        key = squeeze(value.text) if value.kind == "name" else ""
        made = self.definition(value, key, scope) if key and key not in self.functions else value
        if made is None or made.kind != "cond" or made.start > value.start:
            found = [self.callable_value(value, scope)]
        else:
            found = [self.callable_value(choice, scope) for choice in made.children]
        return list({id(function): function for function in found if function is not None}.values())

    def _returned_closure(self, value: Node, key: str, scope: Scope) -> Scope | None:
        """The function that make() returns after `run = make(x)`, or that of `run = [&] {...}`."""
        made = self.definition(value, key, scope)
        if made is not None and made.kind == "lambda":
            return self.by_node.get(id(made))
        if made is not None and _WRAPS.search(callee_text(made) if made.kind == "call" else ""):
            given = positional(made)[:1] if made.end <= value.start else []
            return self.callable_value(given[0], scope) if given else None
        maker = (
            self.called_function(made, scope) if made is not None and made.kind == "call" else None
        )
        if maker is None:
            return None
        returned = {n.children[0].text for n in maker.nodes if n.kind == "return" and n.children}
        inner = [child for child in maker.children if child.name and child.short_name in returned]
        return inner[0] if len(returned) == len(inner) == 1 else None

    def class_of(self, receiver: str, scope: Scope, at: Node) -> str:
        """The class of this file that the object `receiver` is built from, or ""."""
        key = "self." + receiver[6:] if receiver.startswith("this->") else receiver
        value = self.definition(at, key, scope)
        if value is None and receiver in self.class_names:
            return receiver  # a static method
        seen = 0
        while value is not None and seen < 4:
            seen += 1
            made = _MADE_OF.match(value.text[:200]) if self.language == "cuda" else None
            if made is not None and made[1] in self.class_names:
                return made[1]
            if value.kind == "call":
                name = last_segment(callee_text(value))
                if name in self.class_names:
                    return name
                inner = value.children[0] if value.children else None
                if inner is not None and inner.kind == "attribute":
                    value = inner.children[0]
                    continue
                return ""
            if value.kind == "name":
                value = self.definition(value, squeeze(value.text), scope)
                continue
            return ""
        if self.language == "cuda":
            return self._declared_class(key)
        return ""

    def _declared_class(self, key: str) -> str:
        return self._declared_names.get(_element(key.removeprefix("self.")), "")

    @cached_property
    def _declared_names(self) -> dict[str, str]:
        """Names that are declared with the name of a class of this file, and those made of them.

        `Timer timer`, `Timer *t`, `std::vector<std::unique_ptr<Job>> jobs`, `Job jobs[4]`,
        `for (auto &job : jobs)`.
        """
        if not self.class_names:
            return {}
        classes = "|".join(re.escape(name) for name in sorted(self.class_names))
        text = self.tree.text
        listed = r"(?:<[^<>;(){}]*>)?[\s*&]*(?:,[\s\w:]*)?"  # of a container
        kept = rf"\b({classes})\b{listed}(?:[>\s*&]|const\b)*\b(\w+)\b"
        named = {name: kind for kind, name in reversed(re.findall(kept, text))}
        for name, listed in re.findall(_EACH, text):
            if _element(listed) in named:
                named.setdefault(name, named[_element(listed)])
        return named

    @cached_property
    def _functors(self) -> dict[str, Scope]:
        """Objects of C++ that are called as functions are: `Runner run(8); run(x);`."""
        called = {
            function.class_name: function
            for function in self.functions.get("operator", [])
            if _CALLED.search(function.node.text[:400])
        }
        named = self._declared_names.items() if called else ()
        return {name: called[kind] for name, kind in named if kind in called}

    def _method(self, scope: Scope, name: str) -> Scope | None:
        owner = next((s.class_name for s in scope.enclosing() if s.class_name), "")
        for method in self.classes.get(owner, []):
            if method.short_name == name:
                return method
        candidates = [s for s in self.functions.get(name, []) if s.class_name]
        return candidates[0] if len(candidates) == 1 else None

    def overrides(self, method: Scope) -> list[Scope]:
        """What stands for a method of a base class of Python that does nothing itself."""
        if self.language != "python" or not method.class_name or not _is_stub(method):
            return []
        heirs = self._heirs(method.class_name)
        named = self.functions.get(method.short_name, [])
        return [other for other in named if other.class_name in heirs and not _is_stub(other)]

    def _heirs(self, name: str) -> set[str]:
        """The classes of a Python file that inherit from a class of that name."""
        found = {name}
        for _ in range(4):
            found |= {heir for heir, bases in self._bases_of.items() if found & bases}
        return found

    @cached_property
    def _bases_of(self) -> dict[str, set[str]]:
        heads = (re.match(_CLASS_HEAD, node.text) for node in self.tree.of_kind("class"))
        return {
            head[1]: {last_segment(part.strip()) for part in head[2].split(",")}
            for head in heads
            if head is not None
        }

    def call_sites(self, scope: Scope) -> list[Node]:
        """Calls in this file that run the function `scope`."""
        called = scope.short_name or self._lambda_name(scope)
        if not called:
            return []
        names = [called, *self.function_aliases.get(called, [])]
        names += [name for name, function in self._functors.items() if function is scope]
        return [
            call
            for name in names
            for call in self.calls_by_name.get(name, [])
            if call.kind == "call" and self.called_function(call, self.scope_of(call)) is scope
        ]

    @staticmethod
    def _lambda_name(scope: Scope) -> str:
        """The variable that a lambda is given to: auto time_it = [&](auto f) {...}; or ""."""
        parent = scope.node.parent
        if scope.node.kind != "lambda" or parent is None or parent.kind != "assign":
            return ""
        target = parent.children[0]
        return target.text if target.kind == "name" and parent.children[-1] is scope.node else ""

    @cached_property
    def function_aliases(self) -> dict[str, list[str]]:
        """Variables that are assigned a function of the file: `run = run_cuda`."""
        found: dict[str, list[str]] = defaultdict(list)
        for key, pairs in self._assigned.items():
            for _, value in pairs:
                if value.kind == "name" and value.text in self.functions and key != value.text:
                    found[value.text].append(key)
        return found

    def argument_values(self, scope: Scope, parameter: str) -> list[Node]:
        """What the file's call sites of `scope` pass as `parameter`."""
        if parameter not in scope.parameters:
            return []
        position = scope.parameters.index(parameter)
        values = []
        for call in self.call_sites(scope):
            value = argument(call, position, parameter)
            if value is not None:
                values.append(value)
        return values


# What makes a function of a function that does the same.
_WRAPS = re.compile(r"(partial|jit|compile|no_grad|inference_mode|vmap|wraps?)$")
_CLASS_HEAD = r"class\s+(\w+)\s*\(([^()]*)\)"
_NO_BODY = re.compile(
    r"(?:[rRuU]?(?:\"\"\"|\'\'\').*?(?:\"\"\"|\'\'\')\s*)?"
    r"(?:pass|\.\.\.|return|return None|raise NotImplementedError\b[^\n]*)?",
    re.DOTALL,
)


def _is_stub(function: Scope) -> bool:
    """Whether a function of Python has nothing but a docstring, `pass`, `...` or its refusal."""
    body = function.body
    return body is not None and _NO_BODY.fullmatch(body.text.strip()) is not None


# What an object is made of: std::make_unique<Job>(n), new Job[4].
_MADE_OF = re.compile(r"(?:(?:\w+::)*make_(?:unique|shared)\s*<|new\b)\s*(?:\w+::)*(\w+)")
# struct Job final : public Base, with the name and the list of what it inherits from.
_INHERITS = re.compile(r"\b(?:class|struct)\s+(\w+)(?:\s+final)?\s*:(?!:)\s*([^{};()]{0,300})\{")
# for (auto &job : jobs), with the name of the member and that of the list.
_EACH = re.compile(r"\bfor\s*\(\s*(?:const\s+)?auto\b[\s*&]*(\w+)\s*:\s*([\w.]+)\s*\)")


def _element(name: str) -> str:
    """The list whose member is meant: `jobs` of `jobs[i]`, `jobs.at(i)` and `(*jobs)`."""
    return re.sub(r"\[.*|\.(at|front|back|get|begin)\(.*|^[(*&\s]+|\)$", "", name)


_CALLED = re.compile(r"\boperator\s*\(\s*\)\s*\(")


def _called_so(functions: Sequence[Scope], call: Node) -> Sequence[Scope]:
    """Of the functions of C++ that share a name, those that a call can mean.

    A kernel is launched, a function of the host is not; and of overloads one takes as many
    arguments as it is given.
    """
    launched = "<<<" in call.text[:400]
    fitting = [function for function in functions if function.is_kernel is launched] or functions
    given = len(positional(call))
    return [function for function in fitting if len(function.parameters) == given] or fitting


def _namesake(functions: Sequence[Scope], caller: Scope) -> Scope | None:
    """Which of the functions of one name C++ code in `caller` calls: one of its class, or a plain.

    None where they are methods of several other classes.
    """
    own = {scope.class_name for scope in caller.enclosing()} - {""}
    mine = [function for function in functions if function.class_name in own]
    plain = [function for function in functions if not function.class_name]
    owners = {function.class_name for function in functions}
    found = mine or plain or (functions if len(owners) == 1 else [])
    return found[0] if found else None


def _decorators(node: Node) -> list[Node]:
    if node.parent is None or node.kind != "function":
        return []
    siblings = node.parent.children
    index = next((i for i, s in enumerate(siblings) if s is node), 0)
    found = []
    while index > 0 and siblings[index - 1].kind == "decorator":
        index -= 1
        found.append(siblings[index])
    return found


def imported(text: str) -> Iterator[tuple[str, str]]:
    text = re.sub(r"#.*", "", text).replace("\\\n", " ").replace("(", " ").replace(")", " ")
    found = re.match(r"\s*from\s+([\w.]+)\s+import\s+(.*)", text, re.DOTALL)
    if found:
        for name, alias in re.findall(r"([\w*]+)(?:\s+as\s+(\w+))?", found[2]):
            yield alias or name, f"{found[1]}.{name}"
        return
    for name, alias in re.findall(r"([\w.]+)(?:\s+as\s+(\w+))?", text.replace("import", " ", 1)):
        if alias:
            yield alias, name
        else:
            head = name.partition(".")[0]
            yield head, head


def _pairs(node: Node) -> Iterator[tuple[Node, Node]]:
    """(target, value) pairs that `node` assigns; a tuple is taken apart if both sides are one."""
    if node.kind in ("assign", "named") and len(node.children) >= 2:
        value = node.children[-1]
        target = node.children[0]
        yield from _unpack(target, value)
        if value.kind == "assign":  # a = b = value
            yield from _unpack(target, value.children[-1])
    elif node.kind in ("init", "decl"):
        yield from _of_member(node)
    elif node.kind == "item" and len(node.children) == 2:
        yield from _unpack(node.children[1], node.children[0])


def _of_member(node: Node) -> Iterator[tuple[Node, Node]]:
    """What a member of a class of C++ begins as: `: t0_(now())`, `point t0_ = now();`."""
    children = node.children
    if node.kind == "init" and len(children) == 2:
        given = children[1].children
        if len(given) == 1:
            yield children[0], given[0]
    in_class = node.kind == "decl" and node.parent is not None and node.parent.kind == "class"
    kinds = [child.kind for child in children[-2:]]
    if in_class and kinds == ["name", "call"]:
        yield children[-2], children[-1]


def _unpack(target: Node, value: Node) -> Iterator[tuple[Node, Node]]:
    if target.kind in ("tuple", "list"):
        parts = target.children
        same = value.kind in ("tuple", "list") and len(value.children) == len(parts)
        for number, part in enumerate(parts):
            yield from _unpack(part, value.children[number] if same else value)
    else:
        yield target, value


def target_key(target: Node) -> str:
    """The key of an assignment's target or of a read: text without white space, this-> as self."""
    key = squeeze(target.text)
    if key.startswith("this->"):
        return "self." + key[6:]
    if target.tree.language == "cuda" and "(" in key:
        key = key.partition("(")[0]
    return key


def leaf_names(node: Node) -> set[str]:
    """The (dotted) names in a piece of code."""
    return {leaf.text for leaf in node.walk() if leaf.kind == "name"}


def is_dropped(call: Node) -> bool:
    """Whether nothing takes what a call returns: a statement of its own, or `_ = f()`."""
    parent = call.parent
    if parent is not None and parent.kind == "assign":
        return parent.children[0].text == "_"
    if parent is not None and parent.kind in ("for", "while"):  # without braces
        return call.tree.language == "cuda" and parent.children[-1] is call
    return parent is not None and parent.kind in ("block", "module")


def is_target(node: Node) -> bool:
    """Whether a node is what an assignment gives its value to."""
    parent = node.parent
    return parent is not None and parent.kind == "assign" and parent.children[0] is node


def operator(node: Node) -> str:
    """What stands between the first two children of a node, or ""."""
    if len(node.children) < 2:
        return ""
    return node.tree.text[node.children[0].end : node.children[1].start].strip()


def bare_operator(node: Node) -> str:
    """The operator of a binary node, without the brackets, remarks and casts beside it."""
    if len(node.children) < 2:
        return ""
    gap = node.tree.text[node.children[0].end : node.children[1].start]
    gap = re.sub(r"//[^\n]*|/\*.*?\*/", "", gap) if node.tree.language == "cuda" else gap
    return re.sub(r"[\s()\\]|static_cast|double|float|int64_t|int|long|#[^\n]*", "", gap)


def callee_text(call: Node) -> str:
    """The text of what is called: `torch.cuda.synchronize`, `kernel[grid]`, `model(x).item`."""
    if call.callee is None:
        call.callee = _callee_text(call)
    return call.callee


def _callee_text(call: Node) -> str:
    if call.kind == "launch":
        return call.children[0].text if call.children else ""
    args = call_args(call)
    text = call.tree.text[call.start : args.start if args else call.end]
    return squeeze(_without_targs(text) if call.tree.language == "cuda" else text)


def _without_targs(text: str) -> str:
    """`text` without the template arguments at its end, be they templates themselves."""
    text = text.rstrip()
    depth = 0
    for at in range(len(text) - 1, -1, -1) if text.endswith(">") else ():
        depth += (text[at] == ">") - (text[at] == "<")
        if text[at] in "();" or (text[at] == "<" and text[at - 1 : at] == "<"):
            break
        if depth == 0:
            return text[:at]
    return text


def call_args(call: Node) -> Node | None:
    """The argument list of a call."""
    for child in reversed(call.children):
        if child.kind in ("args", "comp"):
            return child
    return None


def positional(call: Node) -> list[Node]:
    """The positional arguments of a call."""
    args = call_args(call)
    if args is None:
        return []
    if args.kind == "comp":
        return [args]
    return [child for child in args.children if child.kind != "keyword"]


def keyword(call: Node, name: str) -> Node | None:
    """The value of a keyword argument."""
    args = call_args(call)
    for child in args.children if args else ():
        if child.kind == "keyword" and child.children and child.children[0].text == name:
            return child.children[-1] if len(child.children) > 1 else child
    return None


def argument(call: Node, position: int, name: str = "") -> Node | None:
    """The argument of a call by keyword or position."""
    found = keyword(call, name) if name else None
    if found is not None:
        return found
    given = positional(call)
    return given[position] if position < len(given) else None


def loops_around(node: Node, inside: Node | None = None) -> list[Node]:
    """The loops whose body (or element) holds `node`, inside out, up to the node `inside`."""
    found = []
    child = node
    for parent in node.ancestors():
        if parent is inside or parent.kind in ("function", "lambda", "class"):
            break
        if parent.kind in _LOOPS and not in_header(parent, child):
            found.append(parent)
        child = parent
    return found


def in_header(loop: Node, child: Node) -> bool:
    """Whether a child of a loop belongs to its header (or its else), not to its body."""
    if loop.kind == "comp":
        return child.kind in ("comp_for", "comp_if") and child is loop.child("comp_for")
    body = loop_body(loop)
    return body is not None and child is not body


def loop_body(loop: Node) -> Node | None:
    """The body of a loop or of an if: its block, or the one statement that stands for it."""
    block = loop.child("block")
    if block is not None or not loop.children:
        return block
    if loop.tree.language == "cuda":
        return loop.children[-1]
    return None


def loop_header(loop: Node) -> str:
    """The text of a loop up to its body."""
    body = loop_body(loop)
    return loop.tree.text[loop.start : body.start] if body is not None else ""


def common_loop(one: Node, two: Node, loops: Sequence[Node] | None = None) -> Node | None:
    """The innermost loop whose body holds both nodes."""
    others = {id(loop) for loop in (loops or loops_around(two))}
    return next((loop for loop in loops_around(one) if id(loop) in others), None)
