"""Everything that tests share lives in the `harness` package; this file only plugs it in."""

pytest_plugins = ["harness.plugin", "harness.fixtures", "harness.operator"]
