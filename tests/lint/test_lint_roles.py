"""The roles that a call has by what it calls, and the order in which that is asked."""

import pytest
from lint.test_engine import source
from perf_timing.lint import roles as r
from perf_timing.lint.engine import SourceFile
from perf_timing.lint.roles import names
from perf_timing.lint.roles.calls import Call, first_answer

_CPP_HEAD = "void choose() { cudaSetDevice(0); }\n"  # the runtime is used: d_x is a name for memory


def roles_on_line(file: SourceFile, line: int) -> set[str]:
    return {
        role
        for scope in file.scopes.all
        for step in file.flow.steps(scope)
        if step.node.line == line
        for role in step.roles
    }


@pytest.mark.parametrize(
    ("call", "role"),
    [
        ("torch.cuda.synchronize()", r.WAIT),
        ("torch.accelerator.synchronize()", r.WAIT),
        ("stream.synchronize()", r.WAIT),
        ("y.block_until_ready()", r.WAIT),
        ("loss.item()", r.READ),
        ("float(loss)", r.READ),
        ("x.to('cpu')", r.READ),
        ("graph.replay()", r.REPLAY),
        ("loss.backward()", r.WORK),
        ("optimizer.step()", r.WORK),
        ("dist.all_reduce(x)", r.WORK),
        ("model(x)", r.WORK),
        ("time.perf_counter()", r.CLOCK),
        ("print(x)", r.IO),
        ("torch.empty(3, device='cuda')", r.ALLOC),
        ("torch.compile(f)", r.COMPILE),
        ("triton.testing.do_bench(f)", r.HARNESS),
    ],
)
def test_a_call_has_its_role(call: str, role: str) -> None:
    head = "import torch, time, triton\nimport torch.distributed as dist\n# cuda\n"
    assert role in roles_on_line(source(f"{head}{call}\n"), 4)


@pytest.mark.parametrize(
    "call",
    [
        "torch.cuda.is_available()",
        "x.view(3, 4)",
        "json.loads(x)",
        "tokenizer(x)",
        "model.eval()",
        "scheduler.step()",
        "dec.decode(raw)",
        "stream.wait_stream(other)",
        "load_model(x)",
    ],
)
def test_what_neither_works_nor_waits_has_no_role(call: str) -> None:
    file = source(f"import torch, json\n# cuda\n{call}\n")
    assert not roles_on_line(file, 3) & {r.WORK, r.WAIT, r.READ, r.BLOCKING}


@pytest.mark.parametrize(
    ("call", "role"),
    [
        ("cudaDeviceSynchronize();", r.WAIT),
        ("CHECK(cudaDeviceSynchronize());", r.WAIT),
        ("cudaMemcpy(d_x, h_x, n, cudaMemcpyHostToDevice);", r.BLOCKING),
        ("cudaMemcpyAsync(d_x, h_x, n, cudaMemcpyHostToDevice, s);", r.COPY),
        ("cudaMalloc(&d_x, n);", r.ALLOC),
        ("cudaEventRecord(start, s);", r.RECORD),
        ("cudaEventElapsedTime(&elapsed_ms, start, stop);", r.ELAPSED),
        ("cudaGraphLaunch(graph, s);", r.REPLAY),
        ("cublasSgemm(handle, n, d_x);", r.WORK),
        ("cublasCreate(&handle);", r.SETUP),
        ("thrust::sort(first, last);", r.BLOCKING),
        ("std::chrono::steady_clock::now();", r.CLOCK),
        ("k<<<1, 1>>>(d_x);", r.WORK),
        ("add_arrays(d_x);", r.LIKELY),
        ('printf("done");', r.IO),
    ],
)
def test_a_call_of_cpp_has_its_role(call: str, role: str) -> None:
    file = source(f"{_CPP_HEAD}void f() {{\n  {call}\n}}\n", "cuda")
    assert role in roles_on_line(file, 3)


@pytest.mark.parametrize(
    "call",
    ["cudaSetDevice(0);", "cudaMalloc(&d_x, n);", "print_array(d_x);", "add_arrays(h_x);"],
)
def test_what_of_cpp_neither_works_nor_waits_has_no_role(call: str) -> None:
    file = source(f"{_CPP_HEAD}void f() {{\n  {call}\n}}\n", "cuda")
    assert not roles_on_line(file, 3) & {r.WORK, r.WAIT, r.READ, r.BLOCKING}


class TestFirstAnswer:
    def call(self) -> Call:
        file = source("f(x)\n")
        return Call(file.tree.of_kind("call")[0], "f", "f", "f", file.scopes.module)

    def test_a_question_about_other_calls_leaves_it_to_the_next(self) -> None:
        assert first_answer([lambda _: None, lambda _: {r.WORK}], self.call()) == {r.WORK}

    def test_an_empty_answer_keeps_the_next_from_being_asked(self) -> None:
        assert first_answer([lambda _: set(), lambda _: {r.WORK}], self.call()) == set()

    def test_no_answer_is_no_role(self) -> None:
        assert first_answer([lambda _: None], self.call()) == set()


def test_rules_find_every_role_in_the_package() -> None:
    assert {name for name in vars(names) if name.isupper()} <= set(r.__all__)
