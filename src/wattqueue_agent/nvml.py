"""Power and power limits of NVIDIA GPUs through NVML (package nvidia-ml-py), where there are any.

Reference: NVIDIA Management Library API, device queries and commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

from wattqueue_agent.limits import Bounds, LimitError, Unit


@dataclass
class GpuLimit:
    """The power limit of one GPU; ``name`` is ``gpu-`` and its UUID, which stays with the device."""

    name: str
    library: ModuleType
    handle: Any
    unit: Unit = "W"

    def range(self) -> Bounds:
        """Return the watts that the GPU takes."""
        low, high = self._call("nvmlDeviceGetPowerManagementLimitConstraints")
        return Bounds(low / 1e3, high / 1e3)

    def read(self) -> float:
        """Return the limit in watts."""
        return float(self._call("nvmlDeviceGetPowerManagementLimit")) / 1e3

    def write(self, value: float) -> None:
        """Set the limit in watts."""
        self._call("nvmlDeviceSetPowerManagementLimit", round(value * 1e3))

    def power_w(self) -> float:
        """Return what the GPU draws in watts."""
        return float(self._call("nvmlDeviceGetPowerUsage")) / 1e3

    def _call(self, name: str, *arguments: int) -> Any:
        try:
            return getattr(self.library, name)(self.handle, *arguments)
        except self.library.NVMLError as error:
            raise LimitError(str(error), where=self.name) from error


def gpu_limits() -> list[GpuLimit]:
    """Return the GPUs of this node; none where the package or the driver is missing."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    handles = (pynvml.nvmlDeviceGetHandleByIndex(k) for k in range(pynvml.nvmlDeviceGetCount()))
    return [GpuLimit(f"gpu-{pynvml.nvmlDeviceGetUUID(handle)}", pynvml, handle) for handle in handles]
