"""JSON documents that kvsim prints or writes: every key, with type, unit and meaning.

One text file a document is the only list of its keys; ``docs/json.md`` and the JSON Schemas are
made from it.
"""

from kvsim.sim.documents.document import Document, Row, document_names, load_document
from kvsim.sim.documents.json_schema import json_schema

__all__ = ["Document", "Row", "document_names", "json_schema", "load_document"]
