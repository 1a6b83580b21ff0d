"""Columns to features, and back: codecs of one or several columns, and the row codec that concatenates them."""

from harpoon.encoding.codec import Codec, ColumnCodec, ColumnSlice, Part, PartType, ValueCells
from harpoon.encoding.encoded_rows import EncodedRows, Penalty, QuantizedRows
from harpoon.encoding.numeric import numeric_cells, to_valid_values
from harpoon.encoding.registry import CODECS, ENCODINGS, KIND_ENCODINGS, per_column
from harpoon.encoding.row_codec import RowCodec
from harpoon.encoding.row_view import CategoryProbabilities, RowView
from harpoon.encoding.scalers import SCALERS
from harpoon.encoding.units import AffineUnit

__all__ = [
    "CODECS",
    "ENCODINGS",
    "KIND_ENCODINGS",
    "SCALERS",
    "AffineUnit",
    "CategoryProbabilities",
    "Codec",
    "ColumnCodec",
    "ColumnSlice",
    "EncodedRows",
    "Part",
    "PartType",
    "Penalty",
    "QuantizedRows",
    "RowCodec",
    "RowView",
    "ValueCells",
    "numeric_cells",
    "per_column",
    "to_valid_values",
]
