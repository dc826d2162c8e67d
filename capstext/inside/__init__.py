"""Looking inside a capsule model of images: what its capsules draw, and where their children look."""
