"""The console: pages in a browser for owners, analysts, collectors and visitors, over the same sessions as HTTP."""
