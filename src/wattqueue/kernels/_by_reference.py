"""Pass a named tuple of arrays between kernels as one pointer (docs/adr/0006).

numba passes a tuple to a called function member by member, and an array as seven words (data, shape, strides, item
count, ...). A ``KernelView`` is some 400 words: copied in every call, and written out in the machine code of every
call. ``by_reference`` avoids that:

1. In the entry kernel, on its stack, it reserves a C struct with the layout of the tuple: for an array the data
   pointer and the shape, for a plain number its value, for a tuple within the tuple its struct (``_struct_type``).
2. It writes the members once (``_write``) and returns the address of the struct.
3. Inner kernels receive a value of type ``ByReference``. Reading a member of it (``view.tree``) gives the address of
   the inner struct; reading an array (``tree.need``) rebuilds numba's array value from data and shape (``_array``).

Consequences that callers must respect:

* Arrays must be C-contiguous: strides are computed from the shape (``kernels/allocate.py`` checks that).
* An array read through a reference has no owner, so reference counting never sees it. It must not outlive the call
  of the entry: kernels return numbers only.
* The tuple itself cannot be changed through the reference, only the elements of its arrays.

With ``NUMBA_DISABLE_JIT=1`` ``by_reference`` returns the tuple itself, and members are plain attributes.
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


class ByReference(types.Type):  # type: ignore[misc]
    """The numba type of a pointer to the struct of a named tuple of type ``of``.

    Its name is short (class name and a hash), where the name of the tuple's own type spells out every array: names of
    types become part of the name of every compiled function.
    """

    def __init__(self, of: Any) -> None:
        """Make the type of references to tuples of numba type ``of``."""
        self.of = of
        super().__init__(f"{of.instance_class.__name__}_{hashlib.sha256(str(of).encode()).hexdigest()[:12]}")

    def member(self, name: str) -> tuple[int, Any]:
        """Return the position and the numba type of a member of the tuple."""
        place = self.of.fields.index(name)
        return place, self.of.types[place]


def _struct_type(models_of: Any, of: Any) -> Any:
    """Return the LLVM type of what the pointer points to: nested structs, an array's data and shape, plain numbers."""
    if isinstance(of, types.BaseNamedTuple):
        return ir.LiteralStructType([_struct_type(models_of, t) for t in of.types])
    if isinstance(of, types.Array):
        return ir.LiteralStructType([models_of.lookup(of.dtype).get_data_type().as_pointer(), *[_WORD] * of.ndim])
    return models_of.lookup(of).get_value_type()


@register_model(ByReference)
class _ByReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    """How numba represents the type in compiled code: one pointer."""

    def __init__(self, models_of: Any, reference_type: Any) -> None:
        super().__init__(models_of, reference_type, _struct_type(models_of, reference_type.of).as_pointer())


def _write(context: Any, builder: Any, place: Any, of: Any, value: Any) -> None:
    """Generate code that stores ``value`` of type ``of`` into the struct at ``place``, member by member."""
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


def _make_reference(_: Any, tuple_type: Any) -> Any:
    """Type and code of the intrinsic ``by_reference``.

    The struct is reserved in the first block of the entry (``alloca_once``), so that a call within a loop does not
    grow the stack.
    """

    def generate(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = cgutils.alloca_once(builder, _struct_type(context.data_model_manager, tuple_type))
        _write(context, builder, place, tuple_type, arguments[0])
        return place

    return ByReference(tuple_type)(tuple_type), generate


def _identity(value: Any) -> Any:
    return value


by_reference: Any = _identity if _config.DISABLE_JIT else intrinsic(_make_reference)
"""The named tuple as kernels take it; as plain Python the tuple itself."""


@infer_getattr
class _ByReferenceMembers(AttributeTemplate):  # type: ignore[misc]
    """Tell numba's type inference the type of each member of a reference."""

    key = ByReference

    def generic_resolve(self, value: Any, name: str) -> Any:
        """Return the type of member ``name``; None where there is none, and numba reports an unknown attribute."""
        if name not in value.of.fields:
            return None  # numba then says that there is no such attribute
        _, of = value.member(name)
        return ByReference(of) if isinstance(of, types.BaseNamedTuple) else of


@lower_getattr_generic(ByReference)  # type: ignore[untyped-decorator]
def _member(context: Any, builder: Any, reference_type: Any, value: Any, name: str) -> Any:
    """Generate code that reads a member: an address for a tuple, an array value for an array, else the number."""
    index, of = reference_type.member(name)
    place = cgutils.gep_inbounds(builder, value, 0, index)
    if isinstance(of, types.BaseNamedTuple):
        return place
    if isinstance(of, types.Array):
        return _array(context, builder, place, of)
    return builder.load(place)


def _array(context: Any, builder: Any, place: Any, of: Any) -> Any:
    """Generate the value of an array from its data pointer and shape: contiguous and without an owner."""
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
