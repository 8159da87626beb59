"""torch.backends of the fake torch: as in PyTorch, a property of cudnn keeps its functions."""

from . import _C


class ContextProp:
    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter

    def __get__(self, obj, kind):
        return self.getter()

    def __set__(self, obj, value):
        self.setter(value)


class CudnnModule:
    benchmark = ContextProp(_C._get_cudnn_benchmark, _C._set_cudnn_benchmark)


cudnn = CudnnModule()
