"""A pickle interpreter that runs nothing.

`torch.save` writes its object tree as a pickle, a program for a stack machine that can call any importable function.
This interpreter knows the opcodes such a tree needs. Names of classes and functions stay inert symbols; "calling" one
is possible for the three symbols that describe a tensor, and only builds a description. Everything else is refused.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import ConvertError

MARK = object()

CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
INTEGERS = ("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4")
STRINGS = ("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE")
LITERALS = frozenset((*INTEGERS, *STRINGS, "BINFLOAT"))


@dataclass(frozen=True)
class Symbol:
    """A class or function named by the pickle. Never imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class Storage:
    """A record of the archive: torch's storage class name, the record's key, and its number of elements."""

    kind: str
    key: str
    numel: int


@dataclass(frozen=True)
class StridedTensor:
    """A view of a storage. Offset and strides count elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def load(program: bytes) -> Any:
    """Interprets a pickle and returns its tree of dicts, lists, tuples, numbers, strings and StridedTensor.

    Raises ConvertError if the pickle is malformed or asks for anything but tensors in containers.
    """
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(program):
            if machine.run(opcode.name, argument):
                return machine.result()
    except (
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        OverflowError,
        struct.error,
    ) as error:
        raise ConvertError(f"the pickle inside the checkpoint is malformed: {error}") from error
    raise ConvertError("the pickle inside the checkpoint has no end")


class _Machine:
    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:
        return self._stack.pop()

    def run(self, name: str, argument: Any) -> bool:
        """Runs one opcode; True at the end of the program."""
        stack = self._stack
        if name in LITERALS:
            stack.append(argument)
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self._memo[argument])
        elif name == "STOP":
            return True
        elif name not in ("PROTO", "FRAME"):
            handler = HANDLERS.get(name)
            if handler is None:
                raise ConvertError(f"refused: the checkpoint's pickle uses the opcode {name}")
            handler(self, argument)
        return False

    def pop(self) -> Any:
        return self._stack.pop()

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def top(self) -> Any:
        return self._stack[-1]

    def pop_to_mark(self) -> list[Any]:
        for i in range(len(self._stack) - 1, -1, -1):
            if self._stack[i] is MARK:
                values = self._stack[i + 1 :]
                del self._stack[i:]
                return values
        raise ValueError("no mark on the stack")

    def pop_last(self, count: int) -> tuple[Any, ...]:
        if len(self._stack) < count:
            raise IndexError("stack underflow")
        values = tuple(self._stack[len(self._stack) - count :])
        del self._stack[len(self._stack) - count :]
        return values


def _set_items(target: Any, values: list[Any]) -> None:
    if type(target) is not dict or len(values) % 2:
        raise ValueError("items set on something that is not a dictionary")
    for key, value in zip(values[::2], values[1::2], strict=True):
        if type(key) not in (str, int):
            raise ValueError("a dictionary key that is neither a string nor a number")
        target[key] = value


def _extend(target: Any, values: list[Any]) -> None:
    if type(target) is not list:
        raise ValueError("items appended to something that is not a list")
    target.extend(values)


def _set_one(machine: _Machine, _: Any) -> None:
    values = machine.pop_last(2)
    _set_items(machine.top(), list(values))


def _set_many(machine: _Machine, _: Any) -> None:
    values = machine.pop_to_mark()
    _set_items(machine.top(), values)


def _append_one(machine: _Machine, _: Any) -> None:
    values = machine.pop_last(1)
    _extend(machine.top(), list(values))


def _append_many(machine: _Machine, _: Any) -> None:
    values = machine.pop_to_mark()
    _extend(machine.top(), values)


def _global(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.push(_checked(module, name))


def _stack_global(machine: _Machine, _: Any) -> None:
    module, name = machine.pop_last(2)
    machine.push(_checked(module, name))


def _checked(module: Any, name: Any) -> Symbol:
    symbol = Symbol(str(module), str(name))
    if str(symbol) in CALLS or (symbol.module == "torch" and symbol.name.endswith("Storage")):
        return symbol
    raise ConvertError(f"refused: the checkpoint's pickle names {symbol}, which is no part of a tensor")


def _reduce(machine: _Machine, _: Any) -> None:
    symbol, arguments = machine.pop_last(2)
    call = CALLS.get(str(symbol)) if isinstance(symbol, Symbol) else None
    if call is None or type(arguments) is not tuple:
        called = symbol if isinstance(symbol, Symbol) else type(symbol).__name__
        raise ConvertError(f"refused: the checkpoint's pickle calls {called}")
    machine.push(call(*arguments))


def _build(machine: _Machine, _: Any) -> None:
    machine.pop()  # attributes such as a state dict's _metadata: of no use here
    if type(machine.top()) is not dict:
        raise ConvertError("refused: the checkpoint's pickle sets attributes of something that is not a dictionary")


def _storage(machine: _Machine, _: Any) -> None:
    identity = machine.pop()
    if type(identity) is not tuple or len(identity) != 5:
        raise ValueError("an external object that is not a storage")
    tag, kind, key, _, numel = identity
    if tag != "storage" or not isinstance(kind, Symbol) or type(key) is not str or not _is_size(numel):
        raise ValueError("an external object that is not a storage")
    machine.push(Storage(kind.name, key, numel))


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> StridedTensor:
    if not isinstance(storage, Storage) or type(shape) is not tuple or type(stride) is not tuple:
        raise ValueError("a tensor without a storage")
    if len(shape) != len(stride) or not all(_is_size(n) for n in (offset, *shape, *stride)):
        raise ValueError("a tensor with a malformed shape")
    return StridedTensor(storage, offset, shape, stride)


def _parameter(tensor: Any, *_: Any) -> StridedTensor:
    if not isinstance(tensor, StridedTensor):
        raise TypeError("a parameter that holds no tensor")
    return tensor


def _ordered_dict(items: Any = ()) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    for key, value in items:
        _set_items(out, [key, value])
    return out


CALLS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered_dict,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
}

HANDLERS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": lambda m, _: m.push(MARK),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "TUPLE": lambda m, _: m.push(tuple(m.pop_to_mark())),
    "TUPLE1": lambda m, _: m.push(m.pop_last(1)),
    "TUPLE2": lambda m, _: m.push(m.pop_last(2)),
    "TUPLE3": lambda m, _: m.push(m.pop_last(3)),
    "SETITEM": _set_one,
    "SETITEMS": _set_many,
    "APPEND": _append_one,
    "APPENDS": _append_many,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "BUILD": _build,
    "BINPERSID": _storage,
}
