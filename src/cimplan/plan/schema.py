"""The JSON schema of a plan file, for other tools."""

from __future__ import annotations

from typing import Any

from cimplan.plan.plan import SCHEMA_VERSION, Plan


def plan_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) that every plan file satisfies."""
    schema = Plan.model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:cimplan:partition-plan:{SCHEMA_VERSION}",
        **schema,
        "title": "cimplan partition plan",
    }
