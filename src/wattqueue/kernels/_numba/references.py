"""Pass a named tuple of arrays between kernels as one pointer (docs/adr/0006).

numba passes a tuple to a called function member by member, and an array as seven words (data, shape, strides, item
count, ...). A ``KernelView`` is some 400 words: copied in every call, and written out in the machine code of every
call. ``by_reference`` avoids that:

1. An entry kernel gets the words of the tuple as one array (``addresses.py``): for an array of the tuple the data
   pointer and the shape, for a plain number its value, for a tuple within the tuple its words.
2. ``by_reference`` copies them into a C struct in the entry's stack frame (``_struct_type``) and returns its address.
   The copy lets LLVM see that no store into an array changes an address; so it keeps addresses in registers.
3. Inner kernels receive a value of type ``ByReference``. Reading a member of it (``view.tree``) gives the address of
   the inner struct; reading an array (``tree.need``) rebuilds numba's array value from data and shape (``_array``). A
   ``Scalars`` (``view.now``) is numba's own record, a pointer, whose fields can be set.

Consequences that callers must respect:

* Arrays must be C-contiguous: strides are computed from the shape (``addresses.py`` checks that).
* An array read through a reference has no owner, so reference counting never sees it. It must not outlive the call
  of the entry: kernels return numbers only.
* The tuple itself cannot be changed through the reference, only the elements of its arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

from wattqueue.kernels._numba.addresses import LAYOUTS, Layout, name_of

_WORD = ir.IntType(64)
_NUMBERS = {int: types.int64, float: types.float64}


class ByReference(types.Type):  # type: ignore[misc]
    """The numba type of a pointer to the struct of a named tuple.

    Its name is short (that of the layout), where the name of the tuple's own type spells out every array: names of
    types become part of the name of every compiled function.
    """

    def __init__(self, layout: Layout) -> None:
        """Make the type of references to tuples of this layout."""
        self.layout = layout
        super().__init__(name_of(layout))

    def member(self, name: str) -> tuple[int, Any]:
        """Return the position and the numba type of a member of the tuple."""
        named, members = self.layout
        place = named._fields.index(name)
        return place, _numba_type(members[place])


def _numba_type(layout: Layout) -> Any:
    """Return the type of a member as kernels see it."""
    if _is_tuple(layout):
        return ByReference(layout)
    if len(layout) == 1:
        kind = layout[0]
        return _NUMBERS[kind] if kind in _NUMBERS else from_dtype(kind.layout)
    return types.Array(from_dtype(np.dtype(layout[0])), layout[1], "C")


def _is_tuple(layout: Layout) -> bool:
    """Return whether a layout is that of a tuple."""
    return len(layout) == 2 and isinstance(layout[0], type)


def _struct_type(models_of: Any, layout: Layout) -> Any:
    """Return the LLVM type of what the pointer points to: nested structs, data and shape of arrays, numbers."""
    if _is_tuple(layout):
        return ir.LiteralStructType([_struct_type(models_of, member) for member in layout[1]])
    if len(layout) == 1:
        return models_of.lookup(_numba_type(layout)).get_value_type()
    element = models_of.lookup(from_dtype(np.dtype(layout[0]))).get_data_type()
    return ir.LiteralStructType([element.as_pointer(), *[_WORD] * layout[1]])


@register_model(ByReference)
class _ByReferenceModel(models.PrimitiveModel):  # type: ignore[misc]
    """How numba represents the type in compiled code: one pointer."""

    def __init__(self, models_of: Any, reference_type: Any) -> None:
        super().__init__(models_of, reference_type, _struct_type(models_of, reference_type.layout).as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def by_reference(_: Any, words: Any) -> Any:
    """Return the named tuple whose words an entry kernel got, as other kernels take it.

    The struct is reserved in the first block of the entry (``alloca_once``), so that a call within a loop does not
    grow the stack.
    """
    reference = ByReference(LAYOUTS[next(iter(words.dtype.fields))])

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        struct = _struct_type(context.data_model_manager, reference.layout)
        place = cgutils.alloca_once(builder, struct)
        found = context.make_array(words)(context, builder, arguments[0]).data
        size = ir.Constant(_WORD, words.dtype.size)
        cgutils.raw_memcpy(builder, place, builder.bitcast(found, struct.as_pointer()), size, 1)
        return place

    return reference(words), generate


@infer_getattr
class _ByReferenceMembers(AttributeTemplate):  # type: ignore[misc]
    """Tell numba's type inference the type of each member of a reference."""

    key = ByReference

    def generic_resolve(self, value: Any, name: str) -> Any:
        """Return the type of member ``name``; None where there is none, and numba reports an unknown attribute."""
        return value.member(name)[1] if name in value.layout[0]._fields else None


@lower_getattr_generic(ByReference)  # type: ignore[untyped-decorator]
def _member(context: Any, builder: Any, reference_type: Any, value: Any, name: str) -> Any:
    """Generate code that reads a member: an address for a tuple or record, an array value, or a number."""
    index, of = reference_type.member(name)
    place = cgutils.gep_inbounds(builder, value, 0, index)
    if isinstance(of, ByReference):
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
