"""@prirec/device as an app team gets it: packed, installed into an empty folder, and used from there."""

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from support.web import NODE, WEB, node

TOOLS = WEB / "node_modules"

IN_NODE = """
import { Device } from "@prirec/device";
import { NodeStore } from "@prirec/device/node";

const device: Device = await Device.open(await NodeStore.open("phone.db"));
const { verdict, visits }: { verdict: string; visits: number } = await device.status();
console.log(JSON.stringify({ verdict, visits }));
await device.close();
"""

IN_A_BROWSER = """
import * as h3 from "h3-js";
import { BrowserStore, Device, UnavailableError, type DeviceApi, type Suggestion } from "@prirec/device";

const device: DeviceApi = await Device.open(await BrowserStore.open("phone"), { h3 });
try {
  const found: readonly Suggestion[] = await device.recommend({ k: 3 });
  console.log(found.map(({ about, reasons }) => `${about}: ${reasons.map(({ words }) => words)}`));
} catch (problem) {
  if (problem instanceof UnavailableError) console.log(problem.after);
}
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody's app, with the package installed."""
    folder = tmp_path_factory.mktemp("app")
    node("scripts/package.ts", str(folder))
    (packed,) = folder.glob("prirec-device-*.tgz")
    installed = folder / "node_modules/@prirec/device"
    installed.parent.mkdir(parents=True)
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    (folder / "package").rename(installed)
    for name in ("h3-js", "@types"):
        (folder / "node_modules" / name).symlink_to(TOOLS / name)
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (folder / "in_node.ts").write_text(IN_NODE, encoding="utf-8")
    (folder / "in_a_browser.ts").write_text(IN_A_BROWSER, encoding="utf-8")
    return folder


def run(folder: Path, *words: str) -> str:
    found = subprocess.run([NODE, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def typed(folder: Path, source: str, *words: str) -> None:
    """Its declarations are checked as well."""
    compiler = str(TOOLS / "typescript/bin/tsc")
    run(folder, compiler, "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--target", "es2024", *words, source)


def test_an_app_in_node_imports_it_with_its_types(app: Path) -> None:
    typed(app, "in_node.ts", "--module", "nodenext", "--types", "node")
    assert json.loads(run(app, "in_node.ts")) == {"verdict": "in no deployment yet; let it join one", "visits": 0}


def test_an_app_for_browsers_bundles_it_with_its_types_and_nothing_of_nodes(app: Path) -> None:
    typed(
        app,
        "in_a_browser.ts",
        "--module",
        "esnext",
        "--moduleResolution",
        "bundler",
        "--lib",
        "es2024,dom",
        "--types",
        "",
    )
    bundled(app, "in_a_browser.ts")


def test_the_example_is_an_app_of_the_package(app: Path) -> None:
    for source in ("main.ts", "worker.ts"):
        words = (WEB / "example" / source).read_text(encoding="utf-8")
        assert "../src/index.ts" in words
        (app / source).write_text(words.replace("../src/index.ts", "@prirec/device"), encoding="utf-8")
        typed(app, source, "--module", "esnext", "--moduleResolution", "bundler", "--lib", "es2024,dom", "--types", "")
    bundled(app, "main.ts", "worker.ts")


def bundled(folder: Path, *sources: str) -> None:
    bundler = str(TOOLS / "esbuild/bin/esbuild")  # a program by itself, not one of Node's
    words = [bundler, *sources, "--bundle", "--format=esm", "--platform=browser", "--outdir=bundled"]
    found = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert all((folder / "bundled" / source.replace(".ts", ".js")).is_file() for source in sources)


def test_the_package_says_what_it_is_and_under_which_licence(app: Path) -> None:
    installed = app / "node_modules/@prirec/device"
    assert {"LICENSE", "README.md", "package.json", "dist"} == {one.name for one in installed.iterdir()}
    exports = json.loads((installed / "package.json").read_text(encoding="utf-8"))["exports"]
    assert all((installed / path).is_file() for entry in exports.values() for path in entry.values())
