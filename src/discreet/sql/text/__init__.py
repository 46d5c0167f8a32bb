"""The analyst's text: parsed, taken apart into blocks, translated."""
