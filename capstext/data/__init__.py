"""Labelled texts: known data sets and own files in, splits of texts and label ids out."""
