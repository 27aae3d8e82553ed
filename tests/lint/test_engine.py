"""The engine under its rules: tree, names, devices, steps and measured regions of small files."""

import pytest
from perf_timing.lint import facts
from perf_timing.lint.code.flow import device_condition, host_condition, pending
from perf_timing.lint.code.scopes import callee_text, positional, split_top
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.model import Unit
from perf_timing.lint.parsing import astgrep


def source(text: str, language: str = "python") -> SourceFile:
    scan = astgrep.scan([astgrep.Source(language, text)], facts.documents(language))[0]
    assert not scan.failure
    return SourceFile(
        Unit("snippet", language, text), facts.build_tree(text, language, scan.matches)
    )


class TestTree:
    def test_names_and_numbers_come_from_the_gaps_between_nodes(self) -> None:
        file = source("y = a.b - 2 * c\n")
        (assign,) = file.tree.of_kind("assign")
        assert [leaf.text for leaf in assign.walk() if leaf.kind in ("name", "number")] == [
            "y",
            "a.b",
            "2",
            "c",
        ]

    def test_an_attribute_behind_a_call_holds_the_call(self) -> None:
        file = source("model(x).loss.backward()\n")
        outer = file.tree.of_kind("call")[0]
        assert callee_text(outer) == "model(x).loss.backward"
        assert outer.children[0].kind == "attribute"

    def test_comments_are_no_names(self) -> None:
        file = source("x = 1  # y is not here\nf(  # nor z\n    x)\n")
        assert {n.text for n in file.tree.of_kind("name")} == {"x", "f"}
        assert [c.line for c in file.tree.comments] == [1, 2]

    @pytest.mark.parametrize(
        ("code", "kernel", "arguments"),
        [
            ("k<<<1, 2>>>(a, b);", "k", 2),
            ("k<float, 4><<<grid, block, 0, s>>>(a);", "k", 1),
            ("ns::k<<<dim3(1), 2>>>();", "ns::k", 0),
            ("if (n) k<<<1, 1>>>(a, b, c);", "k", 3),
        ],
    )
    def test_a_launch_is_recognised(self, code: str, kernel: str, arguments: int) -> None:
        file = source(f"void f() {{ {code} }}", "cuda")
        (launch,) = file.tree.of_kind("launch")
        assert callee_text(launch) == kernel
        after = [c for c in launch.children[1:] if c.kind != "targs"]
        assert len(after) == arguments

    def test_a_shift_is_no_launch(self) -> None:
        file = source("void f() { std::cout << a << b; int c = 1 << 4; }", "cuda")
        assert not file.tree.of_kind("launch")

    def test_offsets_survive_characters_outside_ascii(self) -> None:
        text = 'label = "\u65f6\u95f4"; start = clock()\n'
        file = source(text)
        (call,) = file.tree.of_kind("call")
        assert call.text == "clock()"


class TestNames:
    @pytest.mark.parametrize(
        ("header", "name", "full"),
        [
            ("import torch.cuda as tc", "tc.synchronize", "torch.cuda.synchronize"),
            ("from time import perf_counter as pc", "pc", "time.perf_counter"),
            ("from torch import cuda", "cuda.Event", "torch.cuda.Event"),
            ("from a import (\n    b as c,\n    d,\n)", "d", "a.d"),
            ("import torch\nwait = torch.cuda.synchronize", "wait", "torch.cuda.synchronize"),
        ],
    )
    def test_aliases_are_resolved(self, header: str, name: str, full: str) -> None:
        assert source(header + "\n").scopes.resolve(name) == full

    def test_a_method_is_found_through_the_class_of_its_object(self) -> None:
        file = source("class T:\n    def go(self):\n        pass\nt = T()\nt.go()\n")
        call = file.scopes.calls_by_name["go"][0]
        function = file.scopes.called_function(call, file.scopes.module)
        assert function is not None and function.class_name == "T"

    def test_parameters_with_comments_annotations_and_defaults(self) -> None:
        file = source("def f(  # noqa\n    a, b: int = 3, *args, c=None, **kw):\n    pass\n")
        assert file.scopes.functions["f"][0].parameters == ("a", "b", "args", "c", "kw")

    def test_parameters_of_cpp_functions(self) -> None:
        file = source("void f(const float *x, std::map<int, int> m, int n = 3) {}", "cuda")
        assert file.scopes.functions["f"][0].parameters == ("x", "m", "n")

    def test_call_sites_pass_their_values(self) -> None:
        file = source("def f(fn, n=1):\n    fn()\nf(lambda: 1, n=2)\nf(g)\n")
        function = file.scopes.functions["f"][0]
        assert [v.text for v in file.scopes.argument_values(function, "fn")] == ["lambda: 1", "g"]

    def test_split_top_keeps_brackets_together(self) -> None:
        assert split_top("a, f(b, c), d[1, 2]") == ["a", " f(b, c)", " d[1, 2]"]


class TestDevices:
    @pytest.mark.parametrize(
        ("code", "where"),
        [
            ("x = torch.randn(3)", "host"),
            ("x = torch.randn(3, device='cuda')", "device"),
            ("x = torch.randn(3).cuda()", "device"),
            ("x = torch.randn(3).to('cuda').to(torch.half)", "device"),
            ("x = torch.randn(3, device='cuda').cpu()", "host"),
            ("y = torch.randn(3, device='cuda')\nx = torch.empty_like(y)", "device"),
            ("dev = torch.device('cuda')\nx = torch.zeros(3, device=dev)", "device"),
            ("y = torch.ones(3).cuda()\nx = y @ y + 1", "device"),
            ("import cupy as cp\nx = cp.ones(3)", "device"),
            ("import numpy as np\nx = np.ones(3)", "host"),
            ("x = something()", "unknown"),
            ("net = torch.nn.Linear(2, 2).cuda().eval()\nx = net(z)", "device"),
        ],
    )
    def test_a_value_lives_where_it_was_put(self, code: str, where: str) -> None:
        file = source(f"import torch\n{code}\n")
        _, value = file.scopes.assignments("x")[-1]
        assert file.devices.of(value, file.scopes.module) == where

    def test_a_default_device_moves_what_is_made_without_one(self) -> None:
        file = source("import torch\ntorch.set_default_device('cuda')\nx = torch.randn(3)\n")
        _, value = file.scopes.assignments("x")[-1]
        assert file.devices.of(value, file.scopes.module) == "device"


class TestSteps:
    def test_a_helper_is_looked_into_four_calls_deep(self) -> None:
        text = (
            "import torch\ndef a():\n    torch.cuda.synchronize()\ndef b():\n    a()\n"
            "def c():\n    b()\nc()\n"
        )
        file = source(text)
        (step,) = file.flow.steps(file.scopes.module)
        assert step.waits and step.site.line == 8
        assert [helper.name for helper in step.helpers] == ["c", "b", "a"]

    def test_functions_that_call_each_other_end(self) -> None:
        file = source("def a():\n    b()\ndef b():\n    a()\na()\n")
        assert file.flow.steps(file.scopes.module) == ()

    def test_work_is_left_until_something_waits(self) -> None:
        text = "import torch\nx = torch.ones(3).cuda()\ntorch.sin(x)\n"
        file = source(text)
        assert pending(file.flow.steps(file.scopes.module)) is not None
        waited = source(text + "torch.cuda.synchronize()\n")
        assert pending(waited.flow.steps(waited.scopes.module)) is None

    def test_the_project_names_its_own_helpers(self) -> None:
        from perf_timing.lint.catalog import load_rules
        from perf_timing.lint.check import check

        text = (
            "import time, torch\nx = torch.ones(3).cuda()\nt0 = time.time()\ntorch.sin(x)\n"
            "our_fence(x)\nprint(time.time() - t0)\n"
        )
        rules = [rule for rule in load_rules() if rule.name == "host-clock-without-sync"]
        unit = Unit("a.py", "python", text)
        assert len(check([unit], rules).findings) == 1
        assert not check([unit], rules, sync_helpers=["our_fence"]).findings
        host = Unit("b.py", "python", text.replace("torch.sin(x)", "our_op(1)"))
        assert not check([host], rules, sync_helpers=["our_fence"]).findings
        pure = host.text.replace("our_fence(x)\n", "")
        given = check([Unit("c.py", "python", pure)], rules, gpu_helpers=["our_op"])
        assert [finding.line for finding in given.findings] == [5]


class TestConditions:
    @pytest.mark.parametrize(
        "text",
        ["device == 'cpu'", "not torch.cuda.is_available()", "not use_cuda", "dev != 'cuda'",
         "x and device.type == 'cpu'"],
    )  # fmt: skip
    def test_branches_without_a_device(self, text: str) -> None:
        assert host_condition(text)

    @pytest.mark.parametrize(
        "text",
        ["device == 'cuda'", "device != 'cpu'", "not profile_cuda and graph", "i % 10 == 0",
         "device == 'cpu' or force", "verbose"],
    )  # fmt: skip
    def test_branches_that_run_with_a_device(self, text: str) -> None:
        assert not host_condition(text)

    @pytest.mark.parametrize("text", ["device.type == 'cuda'", "torch.cuda.is_available()"])
    def test_conditions_whose_else_is_for_the_host(self, text: str) -> None:
        assert device_condition(text)


class TestRegions:
    @pytest.mark.parametrize(
        ("body", "lines"),
        [
            ("t0 = time.time()\nf()\nt1 = time.time()\nprint(t1 - t0)\n", (2, 4)),
            ("t0 = time.time()\nf()\nprint((time.time() - t0) * 1e3)\n", (2, 4)),
            ("d['a'] = time.time()\nf()\nd['b'] = time.time()\nx = d['b'] - d['a']\n", (2, 4)),
            ("t0 = time.time() * 1000\nf()\ndt = time.time() * 1000 - t0\n", (2, 4)),
            ("def now():\n    return time.time()\na = now()\nf()\nb = now() - a\n", (4, 6)),
        ],
    )
    def test_a_difference_of_readings_is_a_region(self, body: str, lines: tuple[int, int]) -> None:
        (region,) = source("import time\n" + body).regions.all
        assert (region.start.line, region.end.line) == lines

    def test_a_value_that_is_set_again_goes_around_the_loop(self) -> None:
        text = (
            "import time\nend = time.time()\nfor x in y:\n    f(x)\n"
            "    m(time.time() - end)\n    end = time.time()\n"
        )
        (region,) = source(text).regions.all
        assert region.carried and region.start.line == 6

    def test_a_progress_display_is_cumulative(self) -> None:
        text = (
            "import time\nt0 = time.time()\nfor i in y:\n    f(i)\n"
            "    print(i / (time.time() - t0))\n"
        )
        (region,) = source(text).regions.all
        assert region.cumulative

    def test_a_time_limit_is_no_region(self) -> None:
        assert not source(
            "import time\nt = time.time()\nwhile time.time() - t < 5:\n    f()\n"
        ).regions.all

    def test_start_and_stop_methods_enclose_what_is_between_their_calls(self) -> None:
        text = (
            "import time\nclass T:\n    def start(self):\n        self.t = time.time()\n"
            "    def stop(self):\n        self.d = time.time() - self.t\n"
            "t = T()\nt.start()\nwork()\nt.stop()\n"
        )
        (region,) = source(text).regions.all
        assert (region.start.line, region.end.line) == (4, 6)
        assert region.spans == ((text.index("start()\nw") + 7, text.index("t.stop()\n")),)

    def test_events_in_lists_and_pairs_find_their_records(self) -> None:
        text = (
            "pairs = []\nfor _ in range(3):\n    a, b = E(), E()\n    a.record()\n    b.record()\n"
            "    pairs.append((a, b))\nt = [x.elapsed_time(y) for x, y in pairs]\n"
        )
        (pair,) = source(text).regions.pairs
        assert pair.start is not None and pair.end is not None
        assert (pair.start.line, pair.end.line) == (4, 5)

    def test_cpp_events_find_their_records(self) -> None:
        text = (
            "void f() {\ncudaEventRecord(a);\ncudaEventRecord(b, s);\n"
            "cudaEventElapsedTime(&ms, a, b);\n}\n"
        )
        (pair,) = source(text, "cuda").regions.pairs
        assert pair.start is not None and pair.end is not None
        assert (pair.start.line, pair.end.line) == (2, 3)

    def test_positional_arguments_leave_keywords_out(self) -> None:
        (call,) = source("f(a, 1 + b, k=3, *rest)\n").tree.of_kind("call")
        assert [a.text for a in positional(call)] == ["a", "1 + b", "rest"]
