"""From run files to results.json, tables, pictures and a page: `writing.write` makes all of it."""
