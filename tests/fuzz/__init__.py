"""Fuzzing of everything that reads a file: ``python -m tests.fuzz`` (see `fuzz.campaign` and docs/trust.md).

Seven kinds of file are mutated where their structure is (messages of ONNX, trees of YAML and JSON, words of programs),
and as bytes. Each mutant goes through the commands that a user would give it to. A command may end well, or with a
typed error; it may not end otherwise, take more than two seconds, change its input, or leave half a file.
"""
