"""Documents to Markdown and JSON: sources, layout, crops, one recognizer call a page, exports."""
