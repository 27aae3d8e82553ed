"""The options that scenarios choose from: one entry an option, with its unit, check and help."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perf_timing._cli import UserError
from perf_timing.render import values


@dataclass(frozen=True)
class Option:
    """An option of `render-timing`.

    `parse` turns the text of the command line into the value that the template gets and raises
    UserError. `default` is what the template gets without it; a template may set another.
    """

    name: str
    metavar: str
    help: str
    parse: Callable[[str, str], Any]
    default: Any = None
    choices: tuple[str, ...] = ()
    repeat: bool = False
    flag_name: str = ""  # where it is not the name: two options can share a flag

    @property
    def flag(self) -> str:
        return "--" + (self.flag_name or self.name).replace("_", "-")

    def add_to(self, parser: argparse.ArgumentParser, default: Any) -> None:
        """Declare the option; `default` is shown in the help and used when it is absent."""
        text = self.help
        if default not in (None, False, []):
            text += f" (default: {default})"
        text = text.replace("%", "%%")
        if not self.metavar and not self.choices:
            parser.add_argument(self.flag, dest=self.name, action="store_true", help=text)
        else:
            parser.add_argument(
                self.flag,
                dest=self.name,
                metavar=self.metavar or "{" + ",".join(self.choices) + "}",
                action="append" if self.repeat else "store",
                help=text,
            )


def _switch(flag: str, text: str) -> bool:
    raise UserError(f"{flag} takes no value, not {text!r}")


def _choice(*choices: str) -> Callable[[str, str], str]:
    def parse(flag: str, text: str) -> str:
        if text not in choices:
            raise UserError(f"{flag} takes one of {', '.join(choices)}, not {text!r}")
        return text

    return parse


def _option(
    name: str,
    metavar: str,
    help_text: str,
    parse: Callable[[str, str], Any],
    default: Any = None,
    **more: Any,
) -> Option:
    return Option(name, metavar, help_text, parse, default, **more)


def _choices(name: str, choices: tuple[str, ...], help_text: str, default: str) -> Option:
    return Option(name, "", help_text, _choice(*choices), default, choices)


def _flag(name: str, help_text: str) -> Option:
    return Option(name, "", help_text, _switch, False)


_CATALOGUE = (
    _option(
        "call", "EXPR", "Python expression that is timed, such as 'model(x)'", values.expression
    ),
    _option(
        "calls",
        "[NAME=]EXPR",
        "a version to compare, given twice or more; the first is the baseline",
        values.named_expression,
        repeat=True,
        flag_name="call",
    ),
    _option("setup", "CODE", "Python code that builds what the call uses", values.python_code),
    _option(
        "setup_file", "FILE", "file with that code; it is copied into the result", values.code_file
    ),
    _option("name", "TEXT", "name of the operation in the report", values.text),
    _option("dims", "TEXT", "its dimensions in the report, such as '4096x4096 bf16'", values.text),
    _option(
        "bytes", "EXPR", "bytes that one call must move (expression), for GB/s", values.expression
    ),
    _option(
        "flops",
        "EXPR",
        "operations that one call does (expression), for TFLOP/s",
        values.expression,
    ),
    _option("warmup_ms", "MS", "least warm-up time, in milliseconds", values.non_negative, 300),
    _option("warmup_iterations", "N", "least warm-up calls", values.count, 10),
    _option(
        "iterations",
        "N",
        "samples to take; without it, until the interval is narrow",
        values.positive_count,
    ),
    _option("min_time_ms", "MS", "least measuring time, in milliseconds", values.non_negative, 200),
    _option("max_time_ms", "MS", "most measuring time, in milliseconds", values.positive, 5000),
    _flag("inference", "run the call under torch.inference_mode(), as a served model runs"),
    _choices("cache", ("warm", "cold"), "state of the L2 cache before each call", "warm"),
    _choices(
        "flush",
        ("write", "read"),
        "how cold is made: write leaves dirty lines, as other kernels do; read leaves clean ones",
        "write",
    ),
    _option(
        "rotate",
        "NAME,...",
        "inputs (tensors, modules) to rotate through copies larger than the L2, instead of a flush",
        values.names,
    ),
    _option(
        "rep_ms", "MS", "do_bench's rep: measuring time in milliseconds", values.positive_count, 200
    ),
    _option(
        "check",
        "EXPR",
        "expression that is true when the result is right, such as 'torch.equal(c, a + b)'",
        values.expression,
    ),
    _option("json", "FILE", "file to which the rendered code writes its JSON record", values.text),
    _option("batch_size", "N", "samples in a step, over all ranks", values.positive_count),
    _option(
        "items", "EXPR", "items that a step processed (expression over `batch`)", values.expression
    ),
    _option("warmup_steps", "N", "first steps that are left out", values.count, 5),
    _option("measure_steps", "N", "steps that are measured", values.positive_count, 30),
    _flag("phases", "time data, forward, backward and optimizer apart"),
    _flag("distributed", "gather the figures of all ranks (torch.distributed)"),
    _option("log_every", "N", "steps between two printed lines", values.positive_count, 10),
    _option("kernel", "CODE", "CUDA C++ definition of the kernel, or @FILE", values.cuda_code),
    _option(
        "cuda_setup",
        "CODE",
        "C++ statements that define what the launch uses; 'device_array<float>(n)' allocates",
        values.cuda_statements,
        flag_name="setup",
    ),
    _option(
        "cuda_setup_file",
        "FILE",
        "file with those statements",
        values.cuda_statements_file,
        flag_name="setup_file",
    ),
    _option("launch", "CODE", "its launch, such as 'k<<<grid, block>>>(x, n)'", values.cuda_launch),
    _option("arch", "SM", "architecture for nvcc, such as sm_90", values.architecture, "native"),
    _option("margin", "PERCENT", "difference that counts as the same", values.positive, 1),
    _option("rtol", "X", "relative tolerance of the outputs", values.non_negative),
    _option("atol", "X", "absolute tolerance of the outputs", values.non_negative),
    _flag("minimal", "only what one would paste into a notebook"),
)

OPTIONS = {option.name: option for option in _CATALOGUE}


def method_option(choices: tuple[str, ...], help_text: str) -> Option:
    """`--method`, whose choices differ from scenario to scenario; the first is the default."""
    return _choices("method", choices, help_text, choices[0])
