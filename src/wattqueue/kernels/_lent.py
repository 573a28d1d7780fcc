"""A named tuple of arrays behind one pointer: what kernels hand to one another (docs/adr/0008).

numba hands over a tuple member by member, an array as seven words: some 400 for a whole View, in every call
and in the code of every call. ``lent`` writes down once, in the frame of the kernel that Python calls, where
each array's data lie and what its shape is, and gives a pointer to that note; members read like those of the
tuple itself. An array read through it has no owner, so it must not outlive the call: kernels return numbers.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

_config: Any = numba.config  # its settings are made at run time, unseen by type checkers
_WORD = ir.IntType(64)


class Lent(types.Type):  # type: ignore[misc]
    """The type of a pointer to the note of a named tuple of type ``of``.

    Its name is short, where the tuple's own spells out every array: names become part of every symbol.
    """

    def __init__(self, of: Any) -> None:
        self.of = of
        super().__init__(f"{of.instance_class.__name__}_{hashlib.sha256(str(of).encode()).hexdigest()[:12]}")

    def member(self, name: str) -> tuple[int, Any]:
        """Place and type of a member of the tuple."""
        place = self.of.fields.index(name)
        return place, self.of.types[place]


def _note(models_of: Any, of: Any) -> Any:
    """What stands behind the pointer: tuples within each other, an array's data and shape, plain numbers."""
    if isinstance(of, types.BaseNamedTuple):
        return ir.LiteralStructType([_note(models_of, t) for t in of.types])
    if isinstance(of, types.Array):
        return ir.LiteralStructType([models_of.lookup(of.dtype).get_data_type().as_pointer(), *[_WORD] * of.ndim])
    return models_of.lookup(of).get_value_type()


@register_model(Lent)
class _LentModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, models_of: Any, lent_type: Any) -> None:
        super().__init__(models_of, lent_type, _note(models_of, lent_type.of).as_pointer())


def _write(context: Any, builder: Any, place: Any, of: Any, value: Any) -> None:
    if isinstance(of, types.BaseNamedTuple):
        for i, member in enumerate(of.types):
            at = cgutils.gep_inbounds(builder, place, 0, i)
            _write(context, builder, at, member, builder.extract_value(value, i))
    elif isinstance(of, types.Array):
        array = context.make_array(of)(context, builder, value)
        for i, word in enumerate((array.data, *cgutils.unpack_tuple(builder, array.shape))):
            builder.store(word, cgutils.gep_inbounds(builder, place, 0, i))
    else:
        builder.store(value, place)


def _lend(_: Any, tuple_type: Any) -> Any:
    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = cgutils.alloca_once(builder, _note(context.data_model_manager, tuple_type))
        _write(context, builder, place, tuple_type, arguments[0])
        return place

    return Lent(tuple_type)(tuple_type), generate


def _as_it_is(value: Any) -> Any:
    return value


lent: Any = _as_it_is if _config.DISABLE_JIT else intrinsic(_lend)
"""The named tuple as kernels take it; as plain Python the tuple itself."""


@infer_getattr
class _LentMembers(AttributeTemplate):  # type: ignore[misc]
    key = Lent

    def generic_resolve(self, value: Any, name: str) -> Any:
        if name not in value.of.fields:
            return None  # numba then says that there is no such attribute
        _, of = value.member(name)
        return Lent(of) if isinstance(of, types.BaseNamedTuple) else of


@lower_getattr_generic(Lent)  # type: ignore[untyped-decorator]
def _member(context: Any, builder: Any, lent_type: Any, value: Any, name: str) -> Any:
    index, of = lent_type.member(name)
    place = cgutils.gep_inbounds(builder, value, 0, index)
    if isinstance(of, types.BaseNamedTuple):
        return place
    if isinstance(of, types.Array):
        return _array(context, builder, place, of)
    return builder.load(place)


def _array(context: Any, builder: Any, place: Any, of: Any) -> Any:
    """The array that a note speaks of, contiguous and without an owner."""
    data, *shape = (builder.load(cgutils.gep_inbounds(builder, place, 0, i)) for i in range(of.ndim + 1))
    size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(of.dtype)))
    strides: list[Any] = []
    step = size
    for length in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, length)
    array = context.make_array(of)(context, builder)
    array.data, array.itemsize = data, size
    array.shape, array.strides = cgutils.pack_array(builder, shape), cgutils.pack_array(builder, strides)
    array.nitems = builder.sdiv(step, size)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()  # noqa: SLF001  numba's own way to make a value of a proxy
