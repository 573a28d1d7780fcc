"""Kernels that are compiled by themselves, when they are called for the first time (docs/adr/0030).

What an entry reaches is compiled with it, whether or not the run at hand ever comes there: most kernels below
``loop.run`` belong to what most runs do without. A kernel that is marked ``separate`` is machine code of its own.
Its callers call what a *slot* points to: two words of memory with a name, which the machine code of callers refers to
as a linker lets a program refer to a shared library. The first word is 0 until a caller has found it so, and has called
the second: a function of Python that compiles the kernel, or finds it in the cache, and returns its address. So later
calls cost what a call of any function costs, and threads that meet there at once find the same address.

A slot is named after the kernel and the types of its arguments: tuples that are passed by reference, and numbers by
their annotations. A cached caller brings its slots along (``library._reload_init``).
"""

from __future__ import annotations

import ctypes
import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from wattqueue.kernels._numba.kept import keep
from wattqueue.kernels._numba.references import ByReference

_NUMBERS: dict[str, Any] = {"int": types.int64, "float": types.float64, "bool": types.boolean, "None": types.none}
"""numba's types of numbers, by annotation."""
_FAILED = -1
"""Status of a function by which numba means that an error of Python has been raised."""
_SEPARATE: dict[str, SeparateKernel] = {}
"""All of this process, by module and name."""
_SLOTS: dict[str, tuple[Any, Any]] = {}
"""What has been made of each slot, by its symbol: its memory, and the function that fills it."""
_Prepare = ctypes.CFUNCTYPE(ctypes.c_void_p)


@dataclass(frozen=True)
class Slot:
    """Where callers find a separate kernel for some types of arguments.

    A call makes it, if this process does not have it yet.
    """

    module: str
    name: str
    kinds: tuple[Any, ...]

    @property
    def symbol(self) -> str:
        """Its name in machine code."""
        layouts = [kind.name for kind in self.kinds if isinstance(kind, ByReference)]
        return "wq_slot_" + re.sub(r"\W", "_", ".".join((self.module, self.name, *layouts)))

    @property
    def kernel(self) -> SeparateKernel:
        """The kernel."""
        importlib.import_module(self.module)
        return _SEPARATE[f"{self.module}.{self.name}"]

    def __call__(self) -> None:
        """Make the slot known to the loader of machine code."""
        if self.symbol in _SLOTS:
            return
        prepare = _Prepare(self._prepare)
        words = (ctypes.c_void_p * 2)(None, ctypes.cast(prepare, ctypes.c_void_p))
        _SLOTS[self.symbol] = words, prepare
        binding.add_symbol(self.symbol, ctypes.addressof(words))

    def _prepare(self) -> int:
        """Have the slot point to machine code, and return the address; 0 where that fails, and the caller ends.

        An error that leaves this function is printed, and is 0 to the caller, too.
        """
        try:
            address = self.kernel.address(self.kinds)
        except BaseException as error:  # noqa: BLE001  an interrupt from the keyboard among them
            keep(error)
            return 0
        _SLOTS[self.symbol][0][0] = address
        return address


class SeparateKernel:
    """A kernel with machine code of its own."""

    def __init__(self, function: Callable[..., Any], compiled: Any) -> None:
        """Take the dispatcher that compiles the kernel and looks into the cache."""
        self.function, self.compiled = function, compiled
        *self.annotations, self.result = map(str, function.__annotations__.values())
        _SEPARATE[f"{function.__module__}.{function.__name__}"] = self

    def address(self, kinds: tuple[Any, ...]) -> int:
        """Return where the machine code for these types is.

        Raises: TypeError where the kernel does not return what its annotation says.
        """
        self.compiled.compile(kinds)
        made = self.compiled.overloads[kinds]
        if made.signature.return_type != _NUMBERS[self.result]:
            raise TypeError(f"{self.function.__name__} returns {made.signature.return_type}, not {self.result}")
        return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))

    def called(self, given: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the signature of a call with these types, and what generates its code.

        Raises: TypeError for an argument that is neither a number nor a tuple by reference.
        """
        kinds = tuple(
            kind if isinstance(kind, ByReference) else _NUMBERS[annotation]
            for kind, annotation in zip(given, self.annotations, strict=True)
        )
        result = _NUMBERS[self.result]
        slot = Slot(self.function.__module__, self.function.__name__, kinds)

        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            slot()
            context.active_code_library._reload_init.add(slot)  # noqa: SLF001  no public way
            return _call(context, builder, slot, result, arguments)

        return result(*kinds), generate


def _call(context: Any, builder: Any, slot: Slot, result: Any, arguments: Any) -> Any:
    """Generate a call of what ``slot`` points to, or of what fills it before; an error is handed on.

    The callee changes no struct of a tuple, keeps no address of one, and reaches it in no other way: without these
    promises the caller would read the addresses of all arrays again after each store.
    """
    convention, caller = context.call_conv, builder.function
    kind = convention.get_function_type(result, slot.kinds).as_pointer()
    filling = ir.FunctionType(kind, []).as_pointer()
    both = ir.LiteralStructType([kind, filling])
    words = builder.module.globals.get(slot.symbol) or ir.GlobalVariable(builder.module, both, slot.symbol)
    code = cgutils.alloca_once_value(builder, builder.load(cgutils.gep_inbounds(builder, words, 0, 0)))
    with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(code))):
        filled = builder.call(builder.load(cgutils.gep_inbounds(builder, words, 0, 1)), [])
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, filled)):
            builder.ret(ir.Constant(ir.IntType(32), _FAILED))
        builder.store(filled, code)
    out = cgutils.alloca_once(builder, kind.pointee.args[0].pointee)
    given = [out, caller.args[1], *context.get_arg_packer(slot.kinds).as_arguments(builder, arguments)]
    pointers = [k for k, value in enumerate(given) if isinstance(value.type, ir.PointerType)]
    status = builder.call(builder.load(code), given, arg_attrs=dict.fromkeys(pointers, ("captures(none)", "noalias")))
    for k in pointers[2:]:
        set.add(status.arg_attributes[k], "readonly")  # which llvmlite does not know
    with cgutils.if_unlikely(builder, builder.icmp_signed("!=", status, ir.Constant(status.type, 0))):
        builder.ret(status)
    return context.get_returned_value(builder, result, builder.load(out))


def called_by_slot(function: Callable[..., Any], compiled: Any) -> Any:
    """Return what callers see of a separate kernel: an instruction that calls what its slot points to."""
    names = ", ".join(inspect.signature(function).parameters)  # numba looks at those of this function, too
    scope = {"called": SeparateKernel(function, compiled).called}
    exec(f"def {function.__name__}(_, {names}): return called(({names},))", scope)  # noqa: S102
    made = intrinsic(scope[function.__name__])
    made.__module__, made.__doc__ = function.__module__, function.__doc__
    return made
