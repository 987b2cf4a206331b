"""MongoDB through PyMongo's `AsyncMongoClient` or Motor: one document per record, no transactions."""

from diarist.backends.mongodb.repository import MongoDBRepository
from diarist.backends.mongodb.settings import MongoDBSettings

__all__ = ["MongoDBRepository", "MongoDBSettings"]
