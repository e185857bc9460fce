"""Build TorchRL's compiled segment trees, which its own prioritized replay needs, for this torch.

TorchRL's wheel carries a binary that does not load with the torch we pin, and the C++ sources. They
are compiled here and put in the binary's place. Needs setuptools and ninja, on the PATH.
"""

import importlib.util
import pathlib
import shutil
import sysconfig
import tempfile

from torch.utils.cpp_extension import load

package = pathlib.Path(importlib.util.find_spec("torchrl").origin).parent
with tempfile.TemporaryDirectory() as scratch:
    load(
        name="_torchrl",
        sources=[str(package / "csrc" / name) for name in ("pybind.cpp", "utils.cpp")],
        extra_include_paths=[str(package / "csrc")],
        extra_cflags=["-O3", "-std=c++20"],
        build_directory=scratch,
        is_python_module=False,
    )
    target = package / ("_torchrl" + sysconfig.get_config_var("EXT_SUFFIX"))
    shutil.copy(pathlib.Path(scratch) / "_torchrl.so", target)
