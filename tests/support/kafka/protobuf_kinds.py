"""A message with a field of every kind of Protobuf, what its columns are, and random values of it."""

from __future__ import annotations

import random
from typing import Any

from google.protobuf.descriptor_pb2 import EnumDescriptorProto, EnumValueDescriptorProto, FileDescriptorProto

from tests.support.kafka.protobuf import DURATION, TIMESTAMP, classes, entry, field, message, text, with_imports

_COLORS = {"NONE": 0, "RED": 1, "AGO": -5}
ENUM = EnumDescriptorProto(
    name="Color", value=[EnumValueDescriptorProto(name=name, number=number) for name, number in _COLORS.items()]
)
# Behind each kind: its column, and values, the first of which is the zero value.
_WHOLE = {
    "int32": ("int", (0, -1, 2**31 - 1, -(2**31))),
    "sint32": ("int", (0, -1, 2**31 - 1, -(2**31))),
    "sfixed32": ("int", (0, -1, 2**31 - 1, -(2**31))),
    "uint32": ("bigint", (0, 1, 2**32 - 1)),
    "fixed32": ("bigint", (0, 1, 2**32 - 1)),
    "int64": ("bigint", (0, -1, 2**63 - 1, -(2**63))),
    "sint64": ("bigint", (0, -1, 2**63 - 1, -(2**63))),
    "sfixed64": ("bigint", (0, -1, 2**63 - 1, -(2**63))),
    "uint64": ("decimal(20,0)", (0, 1, 2**63, 2**64 - 1)),
    "fixed64": ("decimal(20,0)", (0, 1, 2**63, 2**64 - 1)),
    "bool": ("boolean", (False, True)),
    "float": ("float", (0.0, -1.5, float("inf"))),
    "double": ("double", (0.0, -1.5e300, float("-inf"))),
    "string": ("string", ("", "é𐐷", "a\0b")),
    "bytes": ("binary", (b"", b"\xff\0")),
    "enum .t.v1.Color": ("string", ("NONE", "RED", "AGO")),
}
_NESTED = {
    "i": (".t.v1.All.Inner", "struct<n:int,s:array<string>>"),
    "ts": (TIMESTAMP, "timestamp"),
    "dur": (DURATION, "interval day to second"),
    "w": (".google.protobuf.Int32Value", "struct<value:int>"),
    "e": (".t.v1.All.Empty", None),
}
_MAPS = {"ms": ("string", ".t.v1.All.Inner"), "mi": ("int32", "enum .t.v1.Color"), "mb": ("bool", "uint64")}


def _names() -> dict[str, str]:
    return {f"f_{kind.split(' ')[0]}": kind for kind in _WHOLE}


def _fields() -> list[Any]:
    made = [field(number, name, kind) for number, (name, kind) in enumerate(_names().items(), 1)]
    made += [field(20 + at, f"r_{name}", kind, "repeated") for at, (name, kind) in enumerate(_names().items())]
    made += [field(40 + at, name, kind) for at, (name, (kind, _)) in enumerate(_NESTED.items())]
    made += [field(50, "ri", ".t.v1.All.Inner", "repeated"), field(51, "rts", TIMESTAMP, "repeated")]
    made += [field(60 + at, name, f".t.v1.All.{name.title()}Entry", "repeated") for at, name in enumerate(_MAPS)]
    made += [field(70, "o1", "int32", oneof_index=0), field(71, "o2", "string", oneof_index=0)]
    return [*made, field(72, "present", "int32", oneof_index=1, proto3_optional=True)]


def _file() -> FileDescriptorProto:
    inner = message("Inner", field(1, "n", "int32"), field(2, "s", "string", "repeated"))
    entries = [entry(f"{name.title()}Entry", *kinds) for name, kinds in _MAPS.items()]
    every = message("All", *_fields(), nested_type=[inner, message("Empty"), *entries])
    every.oneof_decl.add(name="choice"), every.oneof_decl.add(name="_present")
    imports = [f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers")]
    return FileDescriptorProto(
        name="all.proto", package="t.v1", syntax="proto3", dependency=imports, message_type=[every], enum_type=[ENUM]
    )


ALL_SET = with_imports(_file())
ALL, NAME = text(ALL_SET), "t.v1.All"
(All,) = classes(ALL_SET, NAME)
COLUMNS = {
    **{name: _WHOLE[kind][0] for name, kind in _names().items()},
    **{f"r_{name}": f"array<{_WHOLE[kind][0]}>" for name, kind in _names().items()},
    **{name: column for name, (_, column) in _NESTED.items() if column is not None},
    "ri": "array<struct<n:int,s:array<string>>>",
    "rts": "array<timestamp>",
    "ms": "map<string,struct<n:int,s:array<string>>>",
    "mi": "map<int,string>",
    "mb": "map<boolean,decimal(20,0)>",
    "o1": "int",
    "o2": "string",
    "present": "int",
}


def random_message(seed: int) -> Any:
    """A message whose fields are mostly set, to values at the ends of their ranges or near zero."""
    chance, made = random.Random(seed), All()
    for name, kind in _names().items():
        if chance.random() < 0.8:
            setattr(made, name, chance.choice(_WHOLE[kind][1]))
        getattr(made, f"r_{name}").extend(chance.choices(_WHOLE[kind][1], k=chance.randrange(4)))
    _fill_nested(chance, made)
    return made


def _fill_nested(chance: random.Random, made: Any) -> None:
    if chance.random() < 0.8:
        made.i.n, made.w.value = chance.choice((0, 7)), chance.choice((0, -1))
        made.i.s.extend(chance.choices(("", "x"), k=chance.randrange(3)))
        made.ts.FromMicroseconds(chance.choice((0, -1, -62_135_596_800_000_000, 253_402_300_799_999_999)))
        made.dur.FromMicroseconds(chance.choice((0, -1, 86_400_000_001)))
        made.e.SetInParent()
    for name in chance.sample(("a", "", "é"), chance.randrange(3)):
        made.ms[name].n = chance.choice((0, 5))
        made.mi[chance.randrange(-2, 2)] = chance.choice((0, 1, -5))
        made.mb[chance.random() < 0.5] = chance.choice((0, 2**64 - 1))
    made.ri.add(n=chance.choice((0, 3)))
    made.rts.add().FromMicroseconds(chance.choice((0, 1)))
    if chance.random() < 0.5:
        made.o1 = chance.choice((0, 4))
    else:
        made.o2 = chance.choice(("", "z"))
    if chance.random() < 0.5:
        made.present = chance.choice((0, 4))


def expected(found: Any, zeros: bool = False) -> dict[str, Any]:
    """The row of a message, by its columns, as `Row.asDict(True)` tells it. Times are microseconds."""
    return {
        each.name: _value(found, each, zeros)
        for each in found.DESCRIPTOR.fields
        if each.message_type is None or each.message_type.full_name != "t.v1.All.Empty"
    }


def _value(found: Any, each: Any, zeros: bool) -> Any:
    value = getattr(found, each.name)
    if each.message_type is not None and each.message_type.GetOptions().map_entry:
        of = each.message_type.fields_by_name["value"]
        return {key: _one(value[key], of, zeros) for key in value}
    if each.is_repeated:
        return [_one(one, each, zeros) for one in value]
    if each.has_presence:
        return _one(value, each, zeros) if found.HasField(each.name) else None
    return _one(value, each, zeros) if value or zeros else None


def _one(value: Any, each: Any, zeros: bool) -> Any:
    if each.enum_type is not None:
        return each.enum_type.values_by_number[value].name
    if each.message_type is None:
        return value
    if each.message_type.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        return value.ToMicroseconds()
    return expected(value, zeros)
