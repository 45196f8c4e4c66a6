"""The meta-operator language: build, print, parse, verify."""
