"""The meta-operator language: build, print, parse, verify.

`language` holds the types, `printer` and `parser` turn them into text and back, `verifier` says whether a program may
run on a chip, `generate` writes the program of a plan, and `summary` counts what it does. The grammar and the meaning
of every statement are in `docs/meta-operators.md`.
"""
