"""Clients of models."""

from diarist.adapters.models.scripted import ScriptedModel

__all__ = ["ScriptedModel"]
