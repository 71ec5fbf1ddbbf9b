"""From tasks.toml to TaskSpecs: schema, expansion, placeholders, errors with file and line."""
