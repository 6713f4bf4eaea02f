"""conda.py OUT -- builds and tests packaging/conda/recipe.yaml with rattler-build, in OUT.

The recipe is rendered as it is, with and without CUDA.  It is built without its requirements, with the
compilers, libraries and Python of this system instead of those of conda-forge, so its test of the Python
module is left out.

    pip install py-rattler-build
"""

import pathlib
import re
import sys

import rattler_build

here = pathlib.Path(__file__).resolve().parents[2] / "packaging/conda"
out = pathlib.Path(sys.argv[1]).resolve()
choices = {"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"], "cuda_compiler_version": ["None", "13.0"]}

whole = rattler_build.Stage0Recipe.from_file(str(here / "recipe.yaml"))
for variant in whole.render(rattler_build.VariantConfig(choices)):
    recipe = variant.recipe
    print(recipe.package.name, recipe.package.version, recipe.build.string, *recipe.requirements.host)

text = (here / "recipe.yaml").read_text()
text = re.sub(r"^requirements:\n(?: .*\n|\n)+", "", text, flags=re.MULTILINE)
assert "requirements:" not in text and "tests:" in text
folder = out / "recipe/packaging/conda"
folder.mkdir(parents=True)
text = re.sub(r".*python -c.*\n", "", text).replace("../../build", str(here / "../../build"))
(folder / "recipe.yaml").write_text(text)
build = (here / "build.sh").read_text()
(folder / "build.sh").write_text(build.replace("${PYTHON:-python3}", sys.executable))
bare = rattler_build.Stage0Recipe.from_file(str(folder / "recipe.yaml"))
(variant,) = bare.render(rattler_build.VariantConfig())
built = variant.run_build(
    output_dir=str(out),
    channels=[],
    env_isolation=rattler_build.EnvironmentIsolation.NONE,
)
for package in built.packages:
    results = rattler_build.Package.from_file(package).run_tests(channel=[str(out)])
    for result in results:
        print(package, "test", result.test_index, "passed" if result.success else result.output)
    assert results and all(result.success for result in results)
