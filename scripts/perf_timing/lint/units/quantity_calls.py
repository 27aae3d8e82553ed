"""What calls return and what they do to variables: sources of times, reductions, lists, output."""

from collections.abc import Sequence

from perf_timing.lint.code.scopes import (
    Scope,
    call_args,
    callee_text,
    keyword,
    last_segment,
    positional,
    squeeze,
)
from perf_timing.lint.facts import Node
from perf_timing.lint.units import time_sources
from perf_timing.lint.units.quantities import (
    OPAQUE,
    Conflict,
    Many,
    Quantity,
    Several,
    Value,
    Work,
    join,
    plain,
    time,
)
from perf_timing.lint.units.quantity_names import (
    by_name,
)
from perf_timing.lint.units.quantity_values import Frame, Problem, Suspect, Values, item_of
from perf_timing.lint.units.texts import claims_in_call
from perf_timing.lint.units.unit_labels import label_of_name, tokens_of, words

_REDUCE = words(
    "mean median average avg nanmean nanmedian quantile quantiles percentile min max amin "
    "amax sum fsum abs fabs round float int item fmean trimmed std stdev pstdev double tolist "
    "sorted list tuple array asarray tensor Tensor float32 float64 cpu numpy detach fmin fmax "
    "static_cast reversed squeeze flatten ravel set copy str geometric_mean stack concatenate "
    "accumulate nanmin nanmax values str repr format_float clone to move"
)
_APPEND = frozenset({"append", "push_back", "emplace_back", "add", "insert", "appendleft"})


class Calls(Values):
    """Adds calls to the values."""

    def _call(self, node: Node, frame: Frame) -> Value:
        name = callee_text(node)
        last = last_segment(name)
        receiver = self._receiver(node, frame)
        arguments = [(a, self._argument(a, frame)) for a in positional(node)]
        args = call_args(node)
        for child in args.children if args and args.kind == "args" else ():
            if child.kind == "keyword":
                self.value(child, frame)
        self._claims(claims_in_call(node, last, arguments))
        if last == "update" and arguments:
            self._meter(name, arguments[0], frame)
        if last in _APPEND and arguments:
            self._append(node, name, arguments[-1], frame)
            return None
        if time_sources.FILLS_MS.match(last) and self.cpp and arguments:
            self._fill(arguments[0][0], node, frame)
            return None
        local = self.scopes.called_function(node, frame.scope)
        if local is not None:
            return self._local_call(node, local, arguments)
        if last in self.scopes.functions:
            return self._namesake(last)
        return self._known_call(node, name, receiver, arguments)

    def _argument(self, node: Node, frame: Frame) -> Value:
        return None if node.kind == "lambda" else self.value(node, frame)

    def _receiver(self, node: Node, frame: Frame) -> Value:
        callee = node.children[0] if node.children else None
        if callee is None or callee.kind == "args":
            return None
        if callee.kind == "attribute" and callee.children:
            return self.value(callee.children[0], frame)
        base, dot, _ = squeeze(callee.text).replace("->", ".").rpartition(".")
        if callee.kind == "name" and dot and base in frame.env:
            return self._stored(base, callee, frame)
        if callee.kind == "name" and dot and base.startswith("self."):
            return self._lookup(base, callee, frame)
        return None

    def _append(self, node: Node, name: str, item: tuple[Node, Value], frame: Frame) -> None:
        key = name.replace("->", ".").rpartition(".")[0].replace("this.", "self.")
        known = frame.env.get(key)
        added = plain(item[1])
        inner = plain(known) if not isinstance(known, Suspect) else None
        if isinstance(inner, Quantity) and isinstance(added, Quantity):
            joined = join(inner, added)
            if isinstance(joined, Conflict) and inner.origin is not added.origin:
                if not (inner.declared or added.declared):
                    problem = Problem("paths", item[0], added, other=inner, name=key)
                    self.problems.append(problem)
                return
        label = label_of_name(key)
        if isinstance(added, Quantity):
            self._check(added, label, item[0], key)
            frame.env[key] = Many(
                added if label is None else OPAQUE if not added.definite else added
            )

    def _meter(self, name: str, item: tuple[Node, Value], frame: Frame) -> None:
        """`batch_time.update(t)`: a meter's value and averages are in the unit of `t`."""
        base = name.rpartition(".")[0]
        if base and isinstance(item[1], Quantity) and len(tokens_of(base)) > 0:
            self._check(item[1], label_of_name(base), item[0], base)
            for attribute in (
                "val",
                "value",
                "avg",
                "average",
                "mean",
                "median",
                "sum",
                "global_avg",
            ):
                frame.env[f"{base}.{attribute}"] = item[1]

    def _fill(self, target: Node, call: Node, frame: Frame) -> None:
        names = [n for n in target.walk() if n.kind == "name"]
        if names:
            self._bind(names[0], time("ms", call), frame, call)

    def _local_call(
        self, node: Node, local: Scope, arguments: Sequence[tuple[Node, Value]]
    ) -> Value:
        for position, (argument, value) in enumerate(arguments):
            if position < len(local.parameters):
                parameter = local.parameters[position]
                self._given_now[id(local.node), parameter].append(value)
                self._check(plain(value), label_of_name(parameter), argument, parameter)
        for parameter in local.parameters[len(arguments) :]:
            given = keyword(node, parameter)
            if given is not None:
                self._given_now[id(local.node), parameter].append(None)
        found = self._returns.get(id(local.node))
        return found

    def _namesake(self, name: str) -> Value:
        """What a call returns whose receiver is unknown, but whose name the file defines once."""
        found = self.scopes.functions[name]
        return self._returns.get(id(found[0].node)) if len(found) == 1 else None

    def _known_call(
        self,
        node: Node,
        name: str,
        receiver: Value,
        arguments: Sequence[tuple[Node, Value]],
    ) -> Value:
        last = last_segment(name)
        found = time_sources.of_call(name, self.scopes.resolve(name), node, self.torch_timers)
        if found is not None:
            return found
        if self.cpp and (chrono := self._chrono_call(node, last, receiver)) is not None:
            return chrono
        if isinstance(receiver, Quantity) and receiver.kind == "measurement":
            return None
        first = arguments[0][1] if arguments else None
        if last == "zip":
            return Many(Several(tuple(item_of(value) for _, value in arguments)))
        if last == "enumerate":
            return Many(Several((Work(), item_of(first))))
        if last in ("min", "max", "fmin", "fmax") and len(arguments) == 2:
            self._mixed(plain(arguments[0][1]), plain(arguments[1][1]), node)
        if last in _REDUCE or last.split("<")[0] in _REDUCE:
            chosen = receiver if isinstance(receiver, (Quantity, Many)) else first
            return chosen if last in ("sorted", "list", "tolist", "array") else plain(chosen)
        if last in ("len", "numel", "size", "range", "get_world_size", "device_count"):
            return Work() if last != "range" else Many(Work())
        if last in ("element_size", "sizeof"):
            return Work(0.0, "bytes", per_item=True)
        if last == "items" and isinstance(receiver, Many):
            return Many(Several((None, receiver.item)))
        return by_name(last) if not arguments or "." in name else None

    def _chrono_call(self, node: Node, last: str, receiver: Value) -> Value:
        if last == "count" and isinstance(receiver, Quantity) and receiver.kind == "duration":
            return Quantity("time", receiver.exponents, origin=receiver.origin)
        targs = node.child("targs")
        head = node.children[0].text if node.children else ""
        if targs is not None and last_segment(head) in ("duration_cast", "floor", "round", "ceil"):
            exponent = time_sources.duration_exponent(targs.text[1:-1], self._types)
        else:
            args = call_args(node)
            text = node.tree.text[node.start : args.start if args else node.end]
            exponent = time_sources.duration_exponent(text, self._types)
        return time_sources.duration(exponent, node) if exponent is not None else None
