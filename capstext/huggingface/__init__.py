"""Run folders for transformers: after `import capstext` its Auto classes and pipelines know them.

Nothing here imports transformers, which takes seconds: each of its two registries learns of us when somebody
imports it.
"""

import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

# transformers' registry -> our module that enters itself there. Two, because transformers imports the first
# before its PreTrainedModel exists, of which our model is one.
REGISTRIES = {
    "transformers.models.auto.configuration_auto": "capstext.huggingface.configuration",
    "transformers.models.auto.modeling_auto": "capstext.huggingface.modeling",
}


class _Watch(MetaPathFinder):
    """Finds nothing itself; what others find of the registries is told to register us once it is executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in REGISTRIES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            importlib.import_module(REGISTRIES[fullname])

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def register_when_imported() -> None:
    """Enter our classes in transformers' registries: at once if they are there, otherwise when they come."""
    for registry, ours in REGISTRIES.items():
        if registry in sys.modules:
            importlib.import_module(ours)
    if not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())
