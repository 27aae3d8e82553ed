"""What the catalogue says about rules: `--explain`, `--list-rules`."""

from perf_timing._cli import UserError
from perf_timing.lint.catalog import Rule
from perf_timing.lint.judge import all_rules
from perf_timing.lint.output.links import rule_page
from perf_timing.lint.selection import near


def explain(name: str) -> str:
    """The documentation of the rule with this name or code; raises UserError."""
    rules = all_rules()
    for rule in rules:
        if name in (rule.name, rule.code) or name.upper() == rule.code:
            return _explained(rule)
    raise UserError(f"--explain: no rule is called {name!r}; {near(name, rules)}")


def _explained(rule: Rule) -> str:
    parts = [f"{rule.name} ({rule.code}, {rule.severity}{opt_in(rule)})", rule.summary]
    parts += [f"## {title}\n\n{text}" for title, text in rule.sections.items()]
    parts += [f"Silence it for a statement: {suppression(rule)}", rule_page(rule.url)]
    return "\n\n".join(parts) + "\n"


def suppression(rule: Rule) -> str:
    """The comment that silences `rule`."""
    mark = "#" if "python" in rule.languages else "//"
    return f"`{mark} lint-timing: ignore[{rule.name}] reason`"


def opt_in(rule: Rule) -> str:
    """What to append to the severity of a rule that only counts when it is selected."""
    return "" if rule.default else ", opt-in"


def list_rules() -> str:
    """One line a rule: code, name, severity, whether it is opt-in, and what it reports."""
    rules = all_rules()
    width = max(len(rule.name) for rule in rules)
    return "".join(
        f"{rule.code}  {rule.name:<{width}}  {rule.severity + opt_in(rule):<15}  {rule.summary}\n"
        for rule in rules
    )
