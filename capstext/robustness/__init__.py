"""Image runs go in, a page on what attacked, turned and moved images do to them comes out."""
