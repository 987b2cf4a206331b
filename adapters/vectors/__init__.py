"""Stores of vectors, for long-term recall."""

from diarist.adapters.vectors.sqlite import SQLiteVectorStore
from diarist.adapters.vectors.store import Hit, Item, Scope, VectorStore

__all__ = ["Hit", "Item", "SQLiteVectorStore", "Scope", "VectorStore"]
