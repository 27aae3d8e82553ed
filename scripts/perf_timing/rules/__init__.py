"""The rules of the linter: one file each.

A rule that one node of the syntax tree and its surroundings decide is `<rule-name>.yml`: a rule of
ast-grep (several documents where several languages are meant) that also works by itself, as in
`ast-grep scan --rule scripts/perf_timing/rules/nvtx-unknown-api.yml PATH`. What ast-grep has no
field for stands below `metadata:` of the first document:

    id: nvtx-unknown-api          # the file's name; further documents add -2, -cuda, ...
    language: python              # or cpp
    severity: error               # error, warning or info
    message: "one sentence that says what is wrong here, with $METAVARIABLES"
    note: one sentence that says what to do
    url: references/rules.md#nvtx-unknown-api
    rule: {...}
    metadata:
      code: TIM603
      label: NVTX-API
      default: true               # false: only reported when selected
      trigger: nvtx               # regular expression, or a list of them, cheap ones first; a file
                                  # in which one has no match is never parsed
      fix: safe                   # "safe" or "unsafe", where the document has a `fix`
      requires: 'import nvtx'     # optional, on any document: regular expression that the whole
                                  # file must match for this document to count
      doc: |
        One line that says what the rule reports.

        ## What it does
        ## Why it misleads
        ## Known problems
        ## Example
        ## Use instead

Any other rule is `<rule_name>.py`: a module whose docstring is the same documentation, with the
constants CODE, LABEL, DEFAULT, SEVERITY, LANGUAGES, MESSAGE and NOTE, and a function
`check(source: perf_timing.lint.engine.SourceFile) -> Iterable[Report]` over what the engine knows.
TRIGGER may narrow the files that the rule is asked about (a regular expression, or a function of
lint/files/evidence.py; without it, files that may measure something), DEVICE_ONLY = False widens
them to files that name no device, and BENCHMARK_ONLY = True keeps the rule to Python that is there
to measure (lint/intent/purpose.py).

The blocks of code below "Example" and "Use instead" are tested: the rule reports every block of
the first kind and no rule that is on by default reports one of the second.
Each rule has a file of examples, tests/rules/<rule-name>.yml.
"""
